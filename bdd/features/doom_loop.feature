Feature: A model that repeats its calls is stopped
  The third equal call in a row, or the third round of the same few calls, needs the permission doom_loop. Where nobody
  can be asked, the model is told, and the next repetition ends the turn.

  @I-01 @H-21 @C-09
  Scenario: The operator is asked whether a loop goes on
    Given the profile auto
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model answers "I stop here."
    When the host sends "Count"
    And the operator is asked about bash
    Then the file "count.txt" holds "x\nx\n"
    When the operator rejects the ask with "twice is enough"
    And the answer arrives
    Then the answer is "I stop here."
    And the file "count.txt" holds "x\nx\n"
    And the events show in this order:
      | ask           | "permission":"doom_loop","pattern":"bash" |
      | call_finished | twice is enough                           |

  @I-01 @H-21
  Scenario: The operator lets the loop go on for this turn
    Given the profile auto
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model answers "Counted."
    When the host sends "Count"
    And the operator grants offer 1 for the turn
    And the answer arrives
    Then the answer is "Counted."
    And the file "count.txt" holds "x\nx\nx\nx\n"
    And 1 ask was on the tape

  @I-07 @C-09
  Scenario: Nobody is there: the model is told, and then the turn ends
    Given the profile auto
    And the model answers "Ready."
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    When the host asks "Are you ready?"
    And the host stops listening
    And the host asks "Count"
    Then the turn was ended as a loop of bash
    And the file "count.txt" holds "x\nx\n"
    And the session goes on working

  @I-03 @C-09
  Scenario: Two calls in turn are a loop as well
    Given the profile auto
    And the model answers "Ready."
    And the model calls bash with {"command": "echo a >> count.txt"}
    And the model calls bash with {"command": "echo b >> count.txt"}
    And the model calls bash with {"command": "echo a >> count.txt"}
    And the model calls bash with {"command": "echo b >> count.txt"}
    And the model calls bash with {"command": "echo a >> count.txt"}
    And the model calls bash with {"command": "echo b >> count.txt"}
    And the model answers "I was going round in circles."
    When the host asks "Are you ready?"
    And the host stops listening
    And the host asks "Count"
    Then the answer is "I was going round in circles."
    And the file "count.txt" holds "a\nb\na\nb\na\n"

  @C-09
  Scenario: Calls that poll are no loop
    Given the profile auto
    And calls of bash may be repeated
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model answers "It is done now."
    When the host asks "Look until it is done"
    Then the answer is "It is done now."
    And the file "count.txt" holds "x\nx\nx\nx\n"
    And 0 asks were on the tape

  @I-02 @I-05 @C-09
  Scenario: A message begins anew
    Given the profile auto
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model answers "Twice."
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model calls bash with {"command": "echo x >> count.txt"}
    And the model answers "Twice more."
    When the host asks "Count"
    And the host asks "Again"
    Then the answer is "Twice more."
    And 0 asks were on the tape
