Feature: A host talks with an agent that uses tools

  @BDD-AGENT-001
  Scenario: A plain answer comes back
    Given the model answers "你好，我是 Gong！"
    When the host asks "你好"
    Then the answer is "你好，我是 Gong！"
    And the newest request tells the model:
      | user | 你好 |
    And the session goes on working
