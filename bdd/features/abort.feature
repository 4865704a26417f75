Feature: A host stops an agent
  Every open call is answered, no process is left, and the session can go on.

  # ABORT-001: the command and its child are gone, and the call is answered as aborted
  @ABORT-001 @B-04
  Scenario: A running command is killed with its children
    Given the model calls bash with {"command": "sleep 300 & echo $! > pid; echo running; wait"}
    When the host sends "Run it"
    And the command of "pid" runs
    And the host aborts because of "user"
    And the answer arrives
    Then the turn was aborted because of "user"
    And the process of "pid" is gone
    And the events show in this order:
      | call_finished | "error":"aborted" |
      | turn_finished | aborted           |

  # ABORT-002: the first is stopped, the other two never ran, and all three are answered
  @ABORT-002
  Scenario: Calls that were not started are not started any more
    Given the model calls in one answer:
      | tc_1 | bash | {"command": "echo $$ > pid; sleep 300"} |
      | tc_2 | bash | {"command": "touch two.txt"}            |
      | tc_3 | bash | {"command": "touch three.txt"}          |
    When the host sends "Run three"
    And the command of "pid" runs
    And the host aborts because of "user"
    And the answer arrives
    Then the turn was aborted because of "user"
    And the process of "pid" is gone
    And the file "two.txt" does not exist
    And the file "three.txt" does not exist
    And 3 call_finished events were shown

  # ABORT-003: the turn ends as aborted though the model never answers, and the request is let go of
  @ABORT-003
  Scenario: An abort while the model is silent ends the turn
    Given the model answers in pieces:
      | gate | silent |
    When the host sends "你好"
    And the model waits at "silent"
    And the host aborts because of "user"
    And the answer arrives
    Then the turn was aborted because of "user"
    And the model answers nobody any more

  @ABORT-004
  Scenario: After an abort the session works as before
    Given the model answers in pieces:
      | gate | silent |
    And the model answers "恢复后正常"
    When the host sends "你好"
    And the model waits at "silent"
    And the host aborts because of "user"
    And the host asks "再来"
    Then the answer is "恢复后正常"

  # The partial text is in the conversation, on the tape, and in the next request.
  @ABORT-005 @T-06
  Scenario: What the model had said before the abort is kept
    Given the model answers in pieces:
      | text | 已保留内容 |
      | hang |            |
    And the model answers "继续"
    When the host sends "说吧"
    And the text "已保留内容" has been shown
    And the host aborts because of "user"
    And the answer arrives
    Then the turn was aborted because of "user"
    And the conversation reads:
      | user      | 说吧       |
      | assistant | 已保留内容 |
    And the tape holds in this order:
      | answer        | "interrupted":true |
      | turn_finished | aborted            |
    When the host asks "继续"
    Then the newest request tells the model:
      | user  | 说吧       |
      | model | 已保留内容 |
      | user  | 继续       |

  # The reason stands in the outcome, the event and on the tape.
  @ABORT-006 @ABORT-007 @ABORT-011
  Scenario Outline: <id>: The reason of an abort is kept
    Given the model answers in pieces:
      | gate | silent |
    When the host sends "你好"
    And the model waits at "silent"
    And the host aborts because of "<reason>"
    And the answer arrives
    Then the turn was aborted because of "<reason>"
    And the events show in this order:
      | turn_finished | "reason":"<reason>" |
    And the tape holds in this order:
      | turn_finished | <reason> |

    Examples:
      | id        | reason      |
      | ABORT-006 | user        |
      | ABORT-007 | timeout     |
      | ABORT-011 | test_reason |

  # The next turn ends as done, with nothing of the abort in it.
  @ABORT-008 @ABORT-009 @ABORT-010
  Scenario: Nothing of an abort is left for the next turn
    Given the model answers in pieces:
      | gate | silent |
    And the model answers "干净"
    When the host sends "你好"
    And the model waits at "silent"
    And the host aborts because of "user"
    And the answer arrives
    And the host asks "再来"
    Then the answer is "干净"
    And the events show in this order:
      | turn_finished | aborted |
      | turn_finished | done    |
    And the newest request tells the model:
      | user | 你好 |
      | user | 再来 |

  Scenario: Queued messages are held after an abort until the host goes on
    Given the model answers in pieces:
      | gate | silent |
    And the model answers "后来"
    When the host sends "你好"
    And the model waits at "silent"
    And the host follows up with "稍后"
    And the host aborts because of "user"
    And the session is idle
    Then these messages wait:
      | 稍后 |
    When the host lets the session go on
    And the answer arrives
    Then the answer is "后来"

  Scenario: An abort of an idle session changes nothing
    Given the model answers "在"
    When the host aborts because of "user"
    And the host asks "在吗"
    Then the answer is "在"
