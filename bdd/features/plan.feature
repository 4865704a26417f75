Feature: An operator has a plan before anything is changed
  In plan mode nothing is edited but the plan. A person reads it, may change it, and says whether it is carried out.

  @L-01 @L-02 @L-03 @L-05 @Q-04
  Scenario: A plan is written, read, approved and carried out
    Given a session that may plan, under the id "trip"
    And the profile auto
    And the model calls plan_enter with {}
    And the model calls write with {"path": "out.txt", "content": "too early"}
    And the model calls write with {"path": ".tamtam/plans/trip.md", "content": "- [ ] write out.txt"}
    And the model calls plan_exit with {}
    And the model calls write with {"path": "out.txt", "content": "done"}
    And the model answers "Done."
    When the host sends "Plan it, then do it"
    And the operator is asked about plan_exit
    Then the file "out.txt" does not exist
    And the question shows "- [ ] write out.txt"
    When the operator answers the ask with once
    And the answer to message 1 arrives
    Then the answer is "Done."
    And the file "out.txt" holds "done"
    And the events show in this order:
      | agent_switched | "agent":"plan"                                         |
      | call_finished  | Permission denied: edit out.txt by agent plan           |
      | agent_switched | "agent":"build"                                        |
      | call_finished  | out.txt                                                |

  @L-03
  Scenario: What the operator writes into the plan is what holds
    Given a session that plans, under the id "trip"
    And the profile auto
    And the model calls write with {"path": ".tamtam/plans/trip.md", "content": "- [ ] my idea"}
    And the model calls plan_exit with {}
    And the model answers "Yours, then."
    When the host sends "Plan it"
    And the operator is asked about plan_exit
    And the operator writes "- [ ] a better idea" into the file ".tamtam/plans/trip.md"
    And the operator answers the ask with once
    And the answer to message 1 arrives
    Then the events show in this order:
      | call_finished | The user changed it before |
    And the file ".tamtam/plans/trip.md" holds "- [ ] a better idea"

  @L-04 @Q-02
  Scenario: A plan that is rejected is changed, and nothing else
    Given a session that plans, under the id "trip"
    And the profile auto
    And the model calls write with {"path": ".tamtam/plans/trip.md", "content": "- [ ] one step"}
    And the model calls plan_exit with {}
    And the model calls write with {"path": "out.txt", "content": "too early"}
    And the model answers "I see."
    When the host sends "Plan it"
    And the operator is asked about plan_exit
    And the operator rejects the ask with "two steps, please"
    And the answer to message 1 arrives
    Then the file "out.txt" does not exist
    And 0 agent_switched events were shown
    And the events show in this order:
      | call_finished | two steps, please                             |
      | call_finished | Permission denied: edit out.txt by agent plan |

  @L-04
  Scenario: A command that does more than report is asked about
    Given a session that plans, under the id "trip"
    And the profile auto
    And the model calls bash with {"command": "touch made.txt"}
    And the model answers "Not done."
    When the host sends "Plan it"
    And the operator is asked about bash
    And the operator rejects the ask with "not now"
    And the answer to message 1 arrives
    Then the file "made.txt" does not exist
