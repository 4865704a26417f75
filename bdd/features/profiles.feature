Feature: An operator chooses a profile, and knows what it lets through
  One call of each kind is really made under each profile: it runs, a person is asked, or it is refused. What was not allowed
  leaves nothing behind. `docs/SECURITY.md` has the same table for more kinds.

  @H-19 @C-04
  Scenario Outline: <profile>: reading in the workspace and out of it
    Given the profile <profile>
    And the file "note.txt" with "old"
    And the model calls read with {"path": "note.txt"}
    And the model answers "read"
    And the model calls read with {"path": "/etc/passwd"}
    And the model answers "looked"
    When the host sends "Read it"
    Then the call is <inside>
    When the host sends "Look around"
    Then the call is <outside>

    Examples:
      | profile  | inside      | outside     |
      | strict   | asked about | asked about |
      | ask      | allowed     | asked about |
      | edits    | allowed     | asked about |
      | auto     | allowed     | asked about |
      | readonly | allowed     | denied      |
      | headless | allowed     | denied      |
      | opencode | allowed     | asked about |

  @H-19 @C-04
  Scenario Outline: <profile>: writing a file, and one that decides what runs later
    Given the profile <profile>
    And the model calls write with {"path": "new.txt", "content": "new"}
    And the model answers "written"
    And the model calls write with {"path": ".envrc", "content": "export A=1"}
    And the model answers "set"
    When the host sends "Write it"
    Then the call is <ordinary>
    And the file "new.txt" is there only if the call was allowed
    When the host sends "Set it up"
    Then the call is <protected>
    And the file ".envrc" is there only if the call was allowed

    Examples:
      | profile  | ordinary    | protected   |
      | strict   | asked about | asked about |
      | ask      | asked about | asked about |
      | edits    | allowed     | asked about |
      | auto     | allowed     | asked about |
      | readonly | denied      | denied      |
      | headless | denied      | denied      |
      | opencode | allowed     | allowed     |

  @H-10 @H-19 @C-04
  Scenario Outline: <profile>: a command that reads, and one that writes a file
    Given the profile <profile>
    And the file "note.txt" with "old"
    And the model calls bash with {"command": "cat note.txt"}
    And the model answers "shown"
    And the model calls bash with {"command": "echo made > new.txt"}
    And the model answers "made"
    When the host sends "Show it"
    Then the call is <report>
    When the host sends "Make it"
    Then the call is <change>
    And the file "new.txt" is there only if the call was allowed

    Examples:
      | profile  | report      | change      |
      | strict   | asked about | asked about |
      | ask      | allowed     | asked about |
      | edits    | allowed     | allowed     |
      | auto     | allowed     | allowed     |
      | readonly | allowed     | denied      |
      | headless | allowed     | denied      |
      | opencode | allowed     | allowed     |

  # A yes to one call is a yes to that call: the same one is asked about again.
  @H-14 @H-19
  Scenario: What was allowed once is asked about again
    Given the profile strict
    And the model calls write with {"path": "new.txt", "content": "one"}
    And the model answers "written"
    And the model calls write with {"path": "new.txt", "content": "two"}
    And the model answers "not written"
    When the host sends "Write it"
    And the operator answers the ask with once
    And the answer arrives
    Then the file "new.txt" holds "one"
    When the host sends "Once more"
    And the operator rejects the next ask with "leave it"
    And the answer arrives
    Then the answer is "not written"
    And the file "new.txt" holds "one"
