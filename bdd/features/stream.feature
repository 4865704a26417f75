Feature: An integrator shows an answer while it is written

  # STREAM-001: the runtime's own deltas are the three pieces, the last of them a full-width mark, and joined they are the answer
  # STREAM-005: three pieces of one letter each are three deltas in their order, each inside its step
  # STREAM-009: five pieces are five deltas, none joined with its neighbour, and the answer is all of them
  # STREAM-010: two pieces are two deltas, and the answer is both
  # STREAM-011: four pieces of one Chinese character each are shown whole, and joined they are the answer
  @STREAM-001 @STREAM-005 @STREAM-009 @STREAM-010 @STREAM-011
  Scenario Outline: <id>: Pieces are shown as they come
    Given the model answers in the pieces <pieces>
    When the host asks "说"
    Then the answer is "<whole>"
    And the text was shown in the pieces <pieces>
    And each text delta stands inside a step

    Examples:
      | id         | pieces                    | whole      |
      | STREAM-001 | "你好", "世界", "！"      | 你好世界！ |
      | STREAM-005 | "A", "B", "C"             | ABC        |
      | STREAM-009 | "a", "b", "c", "d", "e"   | abcde      |
      | STREAM-010 | "H", "i"                  | Hi         |
      | STREAM-011 | "中", "文", "流", "式"    | 中文流式   |

  # STREAM-002: the call's events stand between the two streamed texts
  @STREAM-002 @B-17
  Scenario: A tool runs within a streamed turn
    Given the file "s.txt" with "from the file"
    And the model calls read with {"path": "s.txt"}
    And the model answers "读到了"
    When the host asks "s.txt?"
    Then the answer is "读到了"
    And the events show in this order:
      | step_started  |               |
      | call_pending  | read          |
      | call_started  | read          |
      | call_finished | from the file |
      | step_finished |               |
      | step_started  |               |
      | text_delta    | 读到了        |
      | step_finished |               |

  # STREAM-003: the stream is closed by the abort, and the text that had arrived is kept
  @STREAM-003 @D-04
  Scenario: What was shown before an abort is kept
    Given the model answers in pieces:
      | text | 已收到 |
      | hang |        |
    When the host sends "说"
    And the text "已收到" has been shown
    And the host aborts because of "user"
    And the answer arrives
    Then the turn was aborted because of "user"
    And the model answers nobody any more
    And the events show in this order:
      | step_started  |                    |
      | text_delta    | 已收到             |
      | part_updated  | 已收到             |
      | step_finished | "interrupted":true |

  # STREAM-004: an abort before any text leaves no text, and the next turn streams
  @STREAM-004
  Scenario: An abort before the first piece shows nothing
    Given the model answers in pieces:
      | gate | before |
      | text | 不应到达 |
    And the model answers "下一轮"
    When the host sends "说"
    And the model waits at "before"
    And the host aborts because of "user"
    And the answer arrives
    And the model goes on at "before"
    And the host asks "再说"
    Then the answer is "下一轮"
    And nowhere was the model told "不应到达"
    And 1 text_delta event was shown

  # STREAM-006: the pieces are the runtime's events of a turn with the gate in it
  @STREAM-006
  Scenario: A host's gate does not disturb the stream
    Given a gate of the host that lets everything pass
    And the model answers in the pieces "通", "过"
    When the host asks "说"
    Then the answer is "通过"
    And the text was shown in the pieces "通", "过"

  # The stream stands still until the first piece was seen, and then goes on where it stopped.
  Scenario: A pause in the stream does not end it
    Given the model answers in pieces:
      | text | 前   |
      | gate | pause |
      | text | 后   |
    When the host sends "说"
    And the text "前" has been shown
    And the model waits at "pause"
    And the model goes on at "pause"
    And the answer arrives
    Then the answer is "前后"
    And the text was shown in the pieces "前", "后"

  # STREAM-008: the sum is shown as one delta of the runtime and is the answer; a script answers, no provider is asked
  @STREAM-008
  Scenario: A sum is streamed
    Given the model answers "2"
    When the host asks "1+1"
    Then the answer is "2"
    And the text was shown in the pieces "2"

  # The runtime's own events of a real call: announced, written, complete, begun and ended, in that order.
  @STREAM-012 @STREAM-013
  Scenario: A call is shown from its announcement to its end
    Given the model calls bash with {"command": "echo shown"}
    And the model answers "ok"
    When the host asks "Run it"
    Then the events show in this order:
      | call_pending  | "name":"bash"  |
      | call_input    | echo shown     |
      | part_updated  | "tool":"bash"  |
      | call_started  | "name":"bash"  |
      | call_finished | "name":"bash"  |
    And the only call_pending event is about "bash"
    And the only call_input event is about "echo shown"
    And 1 call_pending event was shown
    And the only call_started event is about "bash"
    And the only call_finished event is about "bash"

  @STREAM-014
  Scenario: A lost provider is tried again, and the answer is streamed
    Given the model fails as network with "fetch failed: provider unavailable" and may be asked again after 5 ms
    And the model answers in the pieces "mock replay ", "fallback ok"
    When the host asks "说"
    Then the answer is "mock replay fallback ok"
    And the events show in this order:
      | step_started   |                                    |
      | request_failed | fetch failed: provider unavailable |
      | retry          |                                    |
      | step_started   | "attempt":2                        |
      | text_delta     | mock replay                        |
      | step_finished  |                                    |

  @STREAM-015
  Scenario: Two streamed turns do not mix
    Given the model answers in the pieces "一", "号"
    And the model answers in the pieces "二", "号"
    When the host asks "第一"
    Then the answer is "一号"
    And the text was shown in the pieces "一", "号"
    When the host asks "第二"
    Then the answer is "二号"
    And the text was shown in the pieces "二", "号"
    And each text delta stands inside a step

  @STREAM-016
  Scenario: A text answer shows exactly these events
    Given the model answers "文本"
    When the host asks "说"
    Then exactly these events were shown:
      | queued        |
      | turn_started  |
      | step_started  |
      | text_delta    |
      | part_updated  |
      | step_finished |
      | turn_finished |

  @STREAM-017
  Scenario: A listener sees the call of a tool
    Given the file "s.txt" with "x"
    And the model calls read with {"path": "s.txt"}
    And the model answers "ok"
    When the host asks "Read"
    Then the events show in this order:
      | call_started  | read |
      | call_finished | read |

  # STREAM-018: nothing more is shown after the listener has gone, and the turn ends all the same
  @STREAM-018
  Scenario: A listener that has gone is shown nothing
    Given the model answers "一"
    And the model answers "二"
    When the host asks "第一"
    And the host stops listening
    And the host asks "第二"
    Then the answer is "二"
    And 1 turn_finished event was shown

  @STREAM-019
  Scenario: The error of a model is shown
    Given the model fails as auth with "permanent auth failure"
    When the host asks "说"
    Then the turn failed with "permanent auth failure"
    And the events show in this order:
      | request_failed | permanent auth failure |
      | turn_finished  | permanent auth failure |

  # The text of the interrupted stream stays in the conversation and goes to the model.
  @STREAM-ERR-001
  Scenario: The text of an interrupted stream is kept
    Given the model answers in pieces:
      | text | hello  |
      | text |  world |
      | hang |        |
    And the model answers "ok"
    When the host sends "说"
    And the text "helloworld" has been shown
    And the host steers "interrupted" and stops what runs
    And the answer to message 1 arrives
    Then the answer is "ok"
    And the newest request tells the model:
      | user  | 说          |
      | model | helloworld  |
      | user  | interrupted |

  # A stream that broke is tried again; its half text is neither in the answer nor told to the model.
  Scenario: The text of a broken stream is not doubled
    Given the model answers in pieces:
      | text    | hel |
      | cut off |     |
    And the model answers "hello"
    When the host asks "说"
    Then the answer is "hello"
    And the conversation reads:
      | user      | 说    |
      | assistant | hello |
    And nowhere was the model told "hel"

  # STREAM-ERR-004: a message that goes through a hook while another answer streams waits for its turn
  @STREAM-ERR-004
  Scenario: A hook that works during a stream does not get in its way
    Given an input hook of the host that puts "[seen] " before each message
    And the model answers in pieces:
      | text | 前    |
      | gate | half  |
      | text | 后    |
    And the model answers "二"
    When the host sends "第一"
    And the model waits at "half"
    And the host sends "第二"
    And the model goes on at "half"
    And the session is idle
    Then the conversation reads:
      | user      | [seen] 第一 |
      | assistant | 前后        |
      | user      | [seen] 第二 |
      | assistant | 二          |
    And each text delta stands inside a step

  # Over several steps, tools and turns no delta is ever shown outside of its step.
  @STREAM-ERR-005
  Scenario: No text is shown outside of a step
    Given the file "s.txt" with "x"
    And the model answers in pieces:
      | text | 我看看                 |
      | call | read {"path": "s.txt"} |
    And the model answers in the pieces "看", "到了"
    And the model answers in the pieces "再", "见"
    When the host asks "看"
    And the host asks "再见"
    Then the answer is "再见"
    And each text delta stands inside a step

  # STREAM-ERR-006: the positions are those of the runtime's own events
  @STREAM-ERR-006
  Scenario: Two calls of one answer are told apart by their position
    Given the model calls in one answer:
      | tc_1 | ls   | {"path": "."}       |
      | tc_2 | find | {"pattern": "*.x"}  |
    And the model answers "ok"
    When the host asks "Look"
    Then the events show in this order:
      | call_pending | "index":0,"call":"tc_1" |
      | call_pending | "index":1,"call":"tc_2" |
