Feature: Whole conversations, from the first word to the tape
  The rows that were played with a live provider; here a script plays the model, and all else is real.

  # Played by a script; the answer and the tape are those of the real runtime.
  @BDD-E2E-001 @BDD-E2E-002 @BDD-E2E-003
  Scenario Outline: <id>: A question and its answer
    Given the model answers "<answer>"
    When the host asks "<question>"
    Then the answer is "<answer>"
    And the newest request tells the model:
      | user | <question> |
    And the tape holds in this order:
      | accepted      | <question> |
      | answer        | <answer>   |
      | turn_finished | done       |

    Examples:
      | id          | question                                                     | answer   |
      | BDD-E2E-001 | 1+1 等于几？只回答数字                                       | 2        |
      | BDD-E2E-002 | 长 5 厘米、宽 3 厘米的长方形面积是多少平方厘米？             | 15       |
      | BDD-E2E-003 | 请说一个成语                                                 | 一鸣惊人 |

  @BDD-E2E-012
  Scenario: A long prompt reaches the model whole
    Given the model answers "收到"
    When the host asks "请忽略以下内容，只回复“收到”。" 2000 times over
    Then the answer is "收到"
    And the newest request has "请忽略以下内容，只回复“收到”。" 2000 times
    And the tape holds in this order:
      | accepted      | 只回复 |
      | answer        | 收到   |
      | turn_finished | done   |

  @BDD-E2E-004
  Scenario: A version is found in a file
    Given the file "info.txt" with "name: gong\nversion: v0.42\n"
    And the model calls read with {"path": "info.txt"}
    And the model answers "The version is 0.42"
    When the host asks "Which version?"
    Then the answer is "The version is 0.42"
    And the newest request tells the model:
      | user   | Which version? |
      | call   | read           |
      | result | version: v0.42 |

  @BDD-E2E-005
  Scenario: A greeting is written
    Given the model calls write with {"path": "greeting.txt", "content": "hello e2e test"}
    And the model answers "done"
    When the host asks "Write greeting.txt"
    Then the file "greeting.txt" holds "hello e2e test"

  # The second reading gives the model what the edit made.
  @BDD-E2E-006
  Scenario: A file is read, edited and read again
    Given the file "abc.txt" with "alpha beta gamma"
    And the model calls read with {"path": "abc.txt"}
    And the model calls edit with {"path": "abc.txt", "old_string": "beta", "new_string": "BETA"}
    And the model calls read with {"path": "abc.txt"}
    And the model answers "done"
    When the host asks "Make beta loud"
    Then the file "abc.txt" holds "alpha BETA gamma"
    And the newest request tells the model:
      | user   | Make beta loud   |
      | call   | read             |
      | result | alpha beta gamma |
      | call   | edit             |
      | result | edit             |
      | call   | read             |
      | result | alpha BETA gamma |

  # The second request carries the first turn word for word.
  @BDD-E2E-007
  Scenario: The second turn knows the first
    Given the model answers "记住了"
    And the model answers "7749"
    When the host asks "请记住 7749"
    And the host asks "是哪个数字？"
    Then the answer is "7749"
    And the newest request tells the model:
      | user  | 请记住 7749  |
      | model | 记住了       |
      | user  | 是哪个数字？ |

  @BDD-E2E-008
  Scenario: Three turns work on one file
    Given the model calls write with {"path": "todo.txt", "content": "buy milk"}
    And the model answers "made"
    And the model calls read with {"path": "todo.txt"}
    And the model answers "buy milk"
    And the model calls edit with {"path": "todo.txt", "old_string": "milk", "new_string": "coffee"}
    And the model answers "changed"
    When the host asks "Make todo.txt"
    And the host asks "What is in it?"
    Then the answer is "buy milk"
    When the host asks "Coffee, not milk"
    Then the answer is "changed"
    And the file "todo.txt" holds "buy coffee"

  @BDD-E2E-009 @BDD-E2E-010
  Scenario: A missing file is got over
    Given the file "real.txt" with "recovery success"
    And the model calls read with {"path": "missing.txt"}
    And the model calls read with {"path": "real.txt"}
    And the model answers "recovery success"
    When the host asks "Read missing.txt, or else real.txt"
    Then the answer is "recovery success"
    And the newest request tells the model:
      | user   | Read missing.txt |
      | call   | missing.txt      |
      | failed | ENOENT           |
      | call   | real.txt         |
      | result | recovery success |
    And the session goes on working

  # The last of the 500 lines reached the model, under its number.
  @BDD-E2E-011
  Scenario: A file of 500 lines is read
    Given the file "big.txt" of 500 lines with 80 characters each
    And the model calls read with {"path": "big.txt"}
    And the model answers "500"
    When the host asks "How many lines?"
    Then the newest request tells the model:
      | user   | How many lines? |
      | call   | big.txt         |
      | result | 500 line 500    |

  @BDD-E2E-013
  Scenario: Three turns make three files
    Given the model calls write with {"path": "a.txt", "content": "A"}
    And the model answers "a"
    And the model calls write with {"path": "b.txt", "content": "B"}
    And the model answers "b"
    And the model calls write with {"path": "c.txt", "content": "C"}
    And the model answers "c"
    When the host asks "Make a.txt"
    And the host asks "Make b.txt"
    And the host asks "Make c.txt"
    Then the answer is "c"
    And the file "a.txt" holds "A"
    And the file "b.txt" holds "B"
    And the file "c.txt" holds "C"

  # The seam that carries the ruling: the call of a crashing gate is blocked (C-27), and the turn goes on.
  @BDD-E2E-016 @BDD-HOOK-015 @BDD-HOOK-016 @C-27 @R-06
  Scenario: A gate that crashes blocks its call and nothing else
    Given a gate of the host that crashes
    And the file "safe.txt" with "safe content"
    And the model calls read with {"path": "safe.txt"}
    And the model answers "I may not read it"
    When the host asks "Read safe.txt"
    Then the answer is "I may not read it"
    And the newest request tells the model:
      | user   | Read safe.txt                                |
      | call   | read                                         |
      | failed | Blocked by hook: crash failed (panicked: the gate of the host crashes) |
    And the events show in this order:
      | hook_error    | the gate of the host crashes |
      | call_finished | blocked                      |
    And the session goes on working

  # A failed request is made again, a hook of the host sees a result, a person says no, text is shown as it comes, and the turn is stopped.
  @B-18
  Scenario: A turn recovers, is guarded, streams and is stopped
    Given the profile ask
    And a result hook of the host that adds " [seen]"
    And the file "a.txt" with "content"
    And the model fails as overloaded with "busy" and may be asked again after 1 ms
    And the model calls read with {"path": "a.txt"}
    And the model calls bash with {"command": "echo > ran.txt"}
    And the model answers in pieces:
      | text | It says content |
      | hang |                 |
    When the host sends "What is in it?"
    And the operator rejects the ask with "not now"
    And the text "It says content" has been shown
    And the host aborts because of "enough"
    And the answer arrives
    Then the turn was aborted because of "enough"
    And the file "ran.txt" does not exist
    And the newest request tells the model:
      | user   | What is in it? |
      | call   | read           |
      | result | content [seen] |
      | call   | bash           |
      | failed | not now        |
    And the events show in this order:
      | request_failed | busy            |
      | retry          | "attempt":1     |
      | ask            | echo > ran.txt   |
      | text_delta     | It says content |
      | turn_finished  | enough          |
    And the session goes on working

  # Both turns, and the tape, are without the key.
  @BDD-E2E-019
  Scenario: A key stays hidden over two turns
    Given a result hook of the host that hides keys
    And the file "key.txt" with "sk-1234567890abcdefghijklmnopqrstuv"
    And the model calls read with {"path": "key.txt"}
    And the model answers "[REDACTED]"
    And the model calls bash with {"command": "cat key.txt"}
    And the model answers "still [REDACTED]"
    When the host asks "The key?"
    And the host asks "Again?"
    Then the answer is "still [REDACTED]"
    And nowhere was the model told "sk-1234567890"
    And the text "sk-1234567890" is nowhere on the tape

  @BDD-E2E-020 @BDD-HOOK-023
  Scenario: A turn with a call shows its events in order
    Given the file "tel.txt" with "telemetry"
    And the model calls read with {"path": "tel.txt"}
    And the model answers "ok"
    When the host asks "Read tel.txt"
    Then the events show in this order:
      | turn_started  |               |
      | step_started  |               |
      | call_started  | "name":"read" |
      | call_finished | "name":"read" |
      | step_finished |               |
      | turn_finished |               |

  # The conversation is rebuilt from the tape by another runtime, and goes to the model.
  @BDD-E2E-SESSION-001
  Scenario: A conversation is there after a restart
    Given the model answers "2"
    And the model answers "还是 2"
    When the host asks "1+1"
    And the runtime is shut down and started again
    Then the conversation reads:
      | user      | 1+1 |
      | assistant | 2   |
    When the host asks "再算一次"
    Then the answer is "还是 2"
    And the newest request tells the model:
      | user  | 1+1      |
      | model | 2        |
      | user  | 再算一次 |

  # A session whose actor is stopped and started by the operator reads its own tape.
  @BDD-E2E-SESSION-002
  Scenario: An operator restarts a session, and nothing is lost
    Given the file "n.txt" with "2"
    And the model calls read with {"path": "n.txt"}
    And the model answers "2"
    And the model answers "ok"
    When the host asks "n.txt?"
    And the operator restarts the session
    And the host asks "好"
    Then the answer is "ok"
    And the newest request tells the model:
      | user   | n.txt? |
      | call   | read   |
      | result | 2      |
      | model  | 2      |
      | user   | 好     |
