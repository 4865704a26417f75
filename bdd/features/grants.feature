Feature: An operator says how far a yes reaches
  An ask offers what may be allowed for more than one call, from narrow to wide, each with what it means.

  @H-13 @C-05
  Scenario: An ask says what each answer would allow
    Given the profile ask
    And the model calls bash with {"command": "touch one.txt"}
    And the model answers "done"
    When the host sends "Run it"
    Then the ask offers:
      | 1 | Allows the command `touch one.txt`, exactly. |
      | 2 | Allows `touch` with any arguments.           |
    When the operator answers the ask with once
    And the answer arrives
    Then there are no standing grants

  @H-13 @C-05
  Scenario: A command with any arguments is allowed for the session
    Given the profile ask
    And the model calls bash with {"command": "touch one.txt"}
    And the model calls bash with {"command": "touch two.txt"}
    And the model answers "done"
    And the model calls bash with {"command": "touch three.txt"}
    And the model answers "again"
    When the host sends "Run it"
    And the operator grants offer 2 for the session
    And the answer arrives
    And the runtime is shut down and started again
    And the host asks "Once more"
    Then the answer is "again"
    And the files "one.txt two.txt three.txt" are there
    And 1 ask was on the tape
    And the standing grants are:
      | session | Allows `touch` with any arguments. |

  @H-13 @C-05
  Scenario: What is allowed for the turn is asked about in the next one
    Given the profile ask
    And the model calls bash with {"command": "touch one.txt"}
    And the model calls bash with {"command": "touch two.txt"}
    And the model answers "done"
    And the model calls bash with {"command": "touch three.txt"}
    And the model answers "Then not"
    When the host sends "Run it"
    And the operator grants offer 2 for the turn
    And the answer arrives
    Then there are no standing grants
    When the host sends "Once more"
    And the operator rejects the next ask with "that was for then"
    And the answer arrives
    Then the answer is "Then not"
    And the file "three.txt" does not exist
    And 2 asks were on the tape

  # What runs its arguments is offered exactly: any arguments would be any command.
  @H-13
  Scenario: An interpreter is offered exactly
    Given the profile strict
    And the model calls bash with {"command": "python3 one.py"}
    And the model answers "Then not"
    When the host sends "Run it"
    Then the ask offers:
      | 1 | Allows the command `python3 one.py`, exactly. |
    When the operator rejects the ask with "one by one"
    And the answer arrives
    Then the answer is "Then not"
    And there are no standing grants

  @C-05
  Scenario: A grant is taken back
    Given the profile ask
    And the model calls write with {"path": "src/a.txt", "content": "a"}
    And the model answers "done"
    And the model calls write with {"path": "src/b.txt", "content": "a"}
    And the model answers "Then not"
    When the host sends "Change it"
    And the operator grants offer 2 for the session
    And the answer arrives
    Then the standing grants are:
      | session | Allows changing all files in the folder `src` and below it, except hidden ones. |
    When the operator revokes the grant
    And the host sends "Change the other"
    And the operator rejects the next ask with "no more"
    And the answer arrives
    Then there are no standing grants
    And the file "src/a.txt" holds "a"
    And the file "src/b.txt" does not exist

  @H-16 @C-06
  Scenario: A rejection without a word ends the turn, and one with a word does not
    Given the profile ask
    And the model calls bash with {"command": "touch one.txt"}
    And the model answers "I try another way"
    And the model calls bash with {"command": "touch two.txt"}
    When the host sends "Run it"
    And the operator rejects the ask with "use another way"
    And the answer arrives
    Then the answer is "I try another way"
    When the host sends "Once more"
    And the operator rejects the next ask without a word
    And the answer arrives
    Then the turn was rejected
    And the file "one.txt" does not exist
    And the file "two.txt" does not exist
    And the session goes on working
