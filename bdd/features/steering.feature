Feature: An integrator speaks to an agent that is at work
  A message that was acknowledged is never lost; the sender chooses what becomes of the calls that run.

  # Seen on a running session: it waits in the queue, is delivered once, and waits no more.
  @BDD-STEER-001
  Scenario: A steering message waits, is delivered, and waits no more
    Given calls of read are held
    And the model calls read with {"path": "x.txt"}
    And the model answers "好的"
    When the host sends "Read"
    And a call of read is held
    And the host steers "中断请求"
    Then these messages wait:
      | 中断请求 |
    When the call of read goes on
    And the answer to message 1 arrives
    Then no message waits
    And the newest request tells the model:
      | user   | Read     |
      | call   | read     |
      | failed | ENOENT   |
      | user   | 中断请求 |

  # The text is what the model reads as the result of its call.
  @BDD-STEER-002
  Scenario: A skipped command says so and names its tool
    Given calls of read are held
    And the model calls in one answer:
      | tc_1 | read | {"path": "x.txt"}              |
      | tc_2 | bash | {"command": "touch ran.txt"} |
    And the model answers "好的"
    When the host sends "Read and run"
    And a call of read is held
    And the host steers "stop"
    And the call of read goes on
    And the answer to message 1 arrives
    Then the events show in this order:
      | call_finished | Skipped due to queued user message: bash |
    And the file "ran.txt" does not exist

  # A turn without any message in between delivers nothing.
  @BDD-STEER-003 @BDD-STEER-004
  Scenario: Where nobody steers nothing is skipped
    Given the file "x.txt" with "x"
    And the model calls in one answer:
      | tc_1 | read  | {"path": "x.txt"}                      |
      | tc_2 | write | {"path": "y.txt", "content": "y"} |
    And the model answers "好的"
    When the host asks "Read and write"
    Then no message waits
    And 0 steered events were shown
    And the file "y.txt" holds "y"

  # Both are in the next request, in the order in which they were sent.
  @BDD-STEER-005
  Scenario: Two steering messages are delivered together, in order
    Given calls of read are held
    And the model calls read with {"path": "x.txt"}
    And the model answers "好的"
    When the host sends "Read"
    And a call of read is held
    And the host steers "first"
    And the host steers "second"
    And the call of read goes on
    And the answer to message 1 arrives
    Then the newest request tells the model:
      | user   | Read   |
      | call   | read   |
      | failed | ENOENT |
      | user   | first  |
      | user   | second |
    And the model was asked 2 times

  # The receipt and the event name it as steering, and the model gets it within the turn.
  @BDD-STEER-006
  Scenario: A message that is sent as steering joins the running turn
    Given calls of read are held
    And the model calls read with {"path": "x.txt"}
    And the model answers "马上"
    When the host sends "Read"
    And a call of read is held
    And the host steers "urgent"
    Then the newest receipt says steering
    When the call of read goes on
    And the answer to message 1 arrives
    Then the answer is "马上"
    And the events show in this order:
      | steered       | urgent |
      | delivered     |        |
      | turn_finished | 马上   |

  # The steering message is in the running turn, the follow-up in a turn of its own after it.
  @BDD-STEER-007 @BDD-STEER-008 @FOLLOWUP-002 @FOLLOWUP-005 @B-19
  Scenario Outline: <id>: Steering goes before a follow-up, whichever was sent first
    Given calls of read are held
    And the model calls read with {"path": "x.txt"}
    And the model answers "now done"
    And the model answers "later done"
    When the host sends "Read"
    And a call of read is held
    And the host <first>
    And the host <second>
    And the call of read goes on
    And the session is idle
    Then request 2 tells the model:
      | user   | Read   |
      | call   | read   |
      | failed | ENOENT |
      | user   | now    |
    And the conversation reads:
      | user      | Read       |
      | assistant |            |
      | user      | now        |
      | assistant | now done   |
      | user      | later      |
      | assistant | later done |

    Examples:
      | id                              | first                   | second                  |
      | BDD-STEER-007 FOLLOWUP-002 B-19 | follows up with "later" | steers "now"            |
      | BDD-STEER-008 FOLLOWUP-005 B-19 | steers "now"            | follows up with "later" |

  # FOLLOWUP-001: the agent takes it up by itself when the turn is over
  @FOLLOWUP-001 @T-04 @C-13
  Scenario: A follow-up becomes the next turn by itself
    Given the model answers in pieces:
      | gate | working      |
      | text | step 1 done |
    And the model answers "step 2 done"
    When the host sends "Do step 1"
    And the model waits at "working"
    And the host follows up with "Please continue with step 2"
    And the model goes on at "working"
    And the answer arrives
    Then the answer is "step 2 done"
    And the newest request tells the model:
      | user  | Do step 1                   |
      | model | step 1 done                 |
      | user  | Please continue with step 2 |

  # Without a follow-up the session is idle after its turn and asks the model nothing more.
  @FOLLOWUP-003 @B-05 @B-20
  Scenario: Without a follow-up the work ends
    Given the model answers "done"
    When the host asks "Do it"
    And the session is idle
    Then the model was asked 1 time
    And no message waits

  # Each is a turn of its own, in the order in which they were sent.
  @FOLLOWUP-004
  Scenario: Follow-ups are taken one by one, in order
    Given the model answers in pieces:
      | gate | working |
      | text | zero    |
    And the model answers "one"
    And the model answers "two"
    When the host sends "Begin"
    And the model waits at "working"
    And the host follows up with "First"
    And the host follows up with "Second"
    Then these messages wait:
      | First  |
      | Second |
    When the model goes on at "working"
    And the session is idle
    Then the conversation reads:
      | user      | Begin  |
      | assistant | zero   |
      | user      | First  |
      | assistant | one    |
      | user      | Second |
      | assistant | two    |

  Scenario: A queued message can be changed and withdrawn while it waits
    Given the model answers in pieces:
      | gate | working |
      | text | zero    |
    And the model answers "one"
    When the host sends "Begin"
    And the model waits at "working"
    And the host follows up with "First"
    And the host follows up with "Second"
    And the host withdraws "First"
    And the host changes "Second" into "Third"
    Then these messages wait:
      | Third |
    When the model goes on at "working"
    And the session is idle
    Then the conversation reads:
      | user      | Begin |
      | assistant | zero  |
      | user      | Third |
      | assistant | one   |

  @C-13
  Scenario: A steering message may let all calls run
    Given calls of read are held
    And the model calls in one answer:
      | tc_1 | read  | {"path": "x.txt"}                       |
      | tc_2 | write | {"path": "done.txt", "content": "yes"} |
    And the model answers "好的"
    When the host sends "Read and write"
    And a call of read is held
    And the host steers "and then?" after the batch
    And the call of read goes on
    And the answer to message 1 arrives
    Then the file "done.txt" holds "yes"
    And the newest request tells the model:
      | user   | Read and write |
      | call   | tc_1           |
      | call   | tc_2           |
      | failed | tc_1           |
      | result | tc_2           |
      | user   | and then?      |

  @C-13
  Scenario: A steering message may stop what runs, with all its processes
    Given the model calls in one answer:
      | tc_1 | bash | {"command": "sleep 300 & echo $! > pid; wait"} |
      | tc_2 | bash | {"command": "touch never.txt"}                 |
    And the model answers "停下了"
    When the host sends "Run both"
    And the command of "pid" runs
    And the host steers "换个方法" and stops what runs
    And the answer to message 1 arrives
    Then the answer is "停下了"
    And the process of "pid" is gone
    And the file "never.txt" does not exist
    And the newest request tells the model:
      | user   | Run both             |
      | call   | tc_1                 |
      | call   | tc_2                 |
      | failed | tc_1 bash: Command aborted |
      | failed | tc_2 bash: Skipped   |
      | user   | 换个方法             |

  Scenario: A steering message to an idle session begins a turn
    Given the model answers "我在"
    When the host steers "在吗"
    And the answer arrives
    Then the answer is "我在"
