Feature: A project has a say once it is trusted
  A folder that somebody else wrote decides nothing until the operator trusts it, as it is.

  Scenario: Project rules before and after trust, and after a change
    Given the file ".tamtam/config.toml" with "[rules]\nbash = 'deny'\n[rules.edit]\n'notes/**' = 'allow'\n"
    When the operator runs tamtam:
      | permit | write | {"path": "notes/a", "content": ""} |
    Then the command ended with 0 and printed "\"decision\":\"ask\""
    And the command warned that "config.toml is ignored: it is not trusted: run `tamtam trust "
    When the operator runs tamtam:
      | trust | . | --yes |
    Then the command ended with 0 and printed "notes/**"
    When the operator runs tamtam:
      | permit | write | {"path": "notes/a", "content": ""} |
    Then the command ended with 0 and printed "\"decision\":\"allow\""
    And the command warned of nothing
    When the operator runs tamtam:
      | permit | bash | {"command": "make"} | --permission | auto |
    Then the command ended with 0 and printed "\"decision\":\"deny\""
    Given the file ".tamtam/config.toml" with "[rules.edit]\n'**' = 'allow'\n"
    When the operator runs tamtam:
      | permit | write | {"path": "notes/a", "content": ""} |
    Then the command ended with 0 and printed "\"decision\":\"ask\""
    And the command warned that "config.toml has changed since"

  Scenario: A trust is listed and taken back
    Given the file ".tamtam/config.toml" with "max_steps = 3\n"
    When the operator runs tamtam:
      | trust | . | --yes |
    Then the command ended with 0 and printed "max_steps = 3"
    When the operator runs tamtam:
      | config | show |
    Then the command ended with 0 and printed "max_steps       3  [project"
    When the operator runs tamtam:
      | trust | --list |
    Then the command ended with 0 and printed "trusted, since"
    When the operator runs tamtam:
      | trust | . | --revoke |
    Then the command ended with 0 and printed "is no longer trusted"
    When the operator runs tamtam:
      | config | show |
    Then the command ended with 0 and printed "max_steps       (50)  [default]"
    And the command warned that "is not trusted"

  @H-13 @C-05
  Scenario: What is always allowed for the project holds in the next run, until it is taken back
    Given the file "one.json" with "{\"replies\":[{\"calls\":[{\"name\":\"bash\",\"input\":{\"command\":\"touch one.txt\"}}]},\"Done.\"]}"
    And the file "two.json" with "{\"replies\":[{\"calls\":[{\"name\":\"bash\",\"input\":{\"command\":\"touch two.txt\"}}]},\"Done.\"]}"
    And the file "three.json" with "{\"replies\":[{\"calls\":[{\"name\":\"bash\",\"input\":{\"command\":\"touch three.txt\"}}]},\"Done.\"]}"
    # The folder is not trusted.
    When the operator runs tamtam, and answers the ask with always for the project:
      | run | --json | --model | scripted:one.json | go |
    Then the command ended with 0 and printed "is not trusted: run `tamtam trust "
    And the file "one.txt" does not exist
    When the operator runs tamtam:
      | trust | . | --yes |
    Then the command ended with 0 and printed "trusted: "
    When the operator runs tamtam, and answers the ask with always for the project:
      | run | --json | --model | scripted:one.json | go |
    Then the command ended with 0 and printed "\"outcome\":\"done\""
    And the command asked 1 time
    And the file "one.txt" holds ""
    When the operator runs tamtam, and answers the ask with always for the project:
      | run | --json | --model | scripted:two.json | go |
    Then the command asked 0 times
    And the file "two.txt" holds ""
    When the operator runs tamtam:
      | trust | . | --list |
    Then the command ended with 0 and printed "Allows `touch` with any arguments."
    When the operator runs tamtam:
      | trust | . | --revoke=1 |
    Then the command ended with 0 and printed "revoked: Allows `touch` with any arguments."
    When the operator runs tamtam, and answers the ask with always for the project:
      | run | --json | --model | scripted:three.json | go |
    Then the command asked 1 time
