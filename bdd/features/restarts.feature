Feature: A host restarts, and nobody is told a lie
  Each scenario is a way in which recovery has lied to people elsewhere: it reported success and the message was gone, it took a
  stop for a crash, it answered where nobody looked. A kill here is the store as the kernel has it at that moment, and a new runtime
  over it.

  # The message waits behind a turn that the kill cut off; it is answered, once, behind that turn.
  Scenario: A message that was acknowledged before a kill is answered after it
    Given the model answers in pieces:
      | gate | silent |
      | text | first  |
    And the model answers "second"
    When the host sends "one"
    And the model waits at "silent"
    And the host follows up with "two"
    And the process is killed and started again
    And the model goes on at "silent"
    And the host sends message 2 again
    And the answer arrives
    Then the answer is "second"
    And the model was asked 3 times
    And the newest request tells the model:
      | user  | one   |
      | model | first |
      | user  | two   |

  # The mark of a session that is kept stopped does not stand in the way of the lever that lifts it, in this life or the next.
  Scenario: A session that is kept stopped after its crashes is let go by one lever
    Given the model answers "hello"
    When the host asks "hi"
    And the session crashes until it is kept stopped
    And the host sends "are you there"
    Then the message was refused with "parked"
    When the runtime is shut down and started again, and opens nothing
    And the operator lets the session go
    Then the session goes on working

  # Who listened before the kill, and asks for what came since, is shown the end of the turn.
  Scenario: The end of a turn that went on by itself reaches whoever asks what happened since
    Given the model answers in pieces:
      | gate | silent             |
      | text | here is the report |
    When the host sends "write the report"
    And the model waits at "silent"
    And the process is killed and started again
    And the model goes on at "silent"
    Then the events show in this order:
      | session_recovered | "resumed":true        |
      | turn_finished     | done                  |
    When the host sends message 1 again
    And the answer arrives
    Then the answer is "here is the report"

  # The abort was acknowledged, so its effects are there: no process, no open call, and the next life does not go on with the turn.
  Scenario: An abort that was acknowledged before a kill has released everything
    Given the model calls bash with {"command": "sleep 300 & echo $! > pid; echo running; wait"}
    When the host sends "Run it"
    And the command of "pid" runs
    And the host aborts because of "user"
    And the process is killed and started again
    And the host sends message 1 again
    And the answer arrives
    Then the turn was aborted because of "user"
    And the process of "pid" is gone
    And the model was asked 1 time
    And the session goes on working

  # A service that is deployed four times within one long request: no stop counts as a crash.
  Scenario: A stop is not taken for a crash
    Given the model answers in pieces:
      | gate | slow    |
      | text | at last |
    When the host sends "take your time"
    And the model waits at "slow"
    And the runtime is shut down and started again
    And the model waits at "slow" for the 2nd time
    And the runtime is shut down and started again
    And the model waits at "slow" for the 3rd time
    And the operator restarts the session
    And the model waits at "slow" for the 4th time
    And the runtime is shut down and started again
    And the model waits at "slow" for the 5th time
    And the model goes on at "slow"
    And the host sends message 1 again
    And the answer arrives
    Then the answer is "at last"
    And the tape holds in this order:
      | stopped       |              |
      | recovered     | "n":0        |
      | stopped       |              |
      | recovered     | "n":0        |
      | stopped       |              |
      | recovered     | "n":0        |
      | turn_finished | done         |

  # The tools are there before the first session recovers: the call runs again and is not told that there is no such tool.
  Scenario: A turn that goes on by itself finds its tools
    Given the file "notes.txt" with "the notes"
    And calls of read are held
    And the model calls read with {"path": "notes.txt"}
    And the model answers "read"
    When the host sends "Read the notes"
    And a call of read is held
    And the process is killed and started again
    And the call of read goes on
    And the host sends message 1 again
    And the answer arrives
    Then the answer is "read"
    And the newest request tells the model:
      | user   | Read the notes |
      | call   | read           |
      | result | the notes      |

  # A command is never run again: it has one result, which says that nobody knows, and the pair is whole.
  Scenario: A call that a kill cut off is closed, and not run twice
    Given the model calls bash with {"command": "echo x >> count; echo $$ > pid; sleep 300"}
    And the model answers "I look first"
    When the host sends "Count"
    And the command of "pid" runs
    And the process is killed and started again
    And the host sends message 1 again
    And the answer arrives
    Then the answer is "I look first"
    And the file "count" holds "x\n"
    And the newest request tells the model:
      | user   | Count          |
      | call   | bash           |
      | failed | outcome is unknown |

  # Each life gets a step further and is killed: without a bound this goes round for as long as somebody starts the process again.
  Scenario: A turn that is killed again and again ends, and says why
    Given the model hangs before it reads the next line, 11 times over
    When the host sends "go"
    And the process is killed each time the model hangs, and the next life gets further, 11 times over
    And the host sends message 1 again
    And the answer arrives
    Then the turn was given up after 11 crashes
    And the session goes on working
