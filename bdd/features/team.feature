Feature: A team: work that is given to subagents
  What a host, an operator and an integrator see of tasks: side by side, steered, stopped, killed, asked about and gone on with.
  The model is a script; sessions, tools, files, tapes and the tree are real.

  # The file is the effect of the subagent's own call; the parent has made none.
  Scenario: A task in the foreground does its work in a session of its own
    Given the model calls task with {"description": "greet", "prompt": "write a greeting", "subagent_type": "general"}
    And the model answers "It is written"
    And the subagent of "write a greeting" calls write with {"path": "greeting.txt", "content": "hello\n"}
    And the subagent of "write a greeting" answers "I wrote greeting.txt"
    When the host asks "Have a greeting written"
    Then the answer is "It is written"
    And the file "greeting.txt" holds "hello\n"
    And the newest request tells the model:
      | user   | Have a greeting written |
      | call   | task                    |
      | result | I wrote greeting.txt    |
    And the calls gave these envelopes:
      | completed | I wrote greeting.txt |
    And the tape holds in this order:
      | call          | task     |
      | task_started  | general  |
      | task_finished | greeting |
      | result        | greeting |

  Scenario: A task in the background lets the session go on, and tells of its end
    Given the model calls task with {"description": "look", "prompt": "look it up", "subagent_type": "explore", "background": true}
    And the model answers "Meanwhile"
    And the model answers "Thank you"
    And the subagent of "look it up" answers "found it" once it may go on at "look"
    When the host asks "Look it up"
    Then the answer is "Meanwhile"
    When the task "look" is at work
    Then 1 task is at work
    And the tree shows 1 task under the session
    When the model waits at "look"
    And the model goes on at "look"
    And the session has had 2 turns
    Then 0 tasks are at work
    And the newest request tells of "is over: done."
    And the events show in this order:
      | task_started  |          |
      | turn_finished | done     |
      | task_finished | found it |
      | turn_started  |          |

  Scenario: Two tasks work side by side, one is steered and one stopped with what it has
    Given the model calls in one answer:
      | a | task | {"description": "north", "prompt": "look north", "subagent_type": "explore"} |
      | b | task | {"description": "south", "prompt": "look south", "subagent_type": "explore"} |
    And the model answers "Both are over"
    And the file "map.txt" with "north is up\n"
    And the subagent of "look north" calls read with {"path": "map.txt"} once it may go on at "north"
    And the subagent of "look north" answers "north and east"
    And the subagent of "look south" says "half of the south" and hangs at "south"
    When the host sends "Look around"
    And the model waits at "north"
    And the model waits at "south"
    Then 2 tasks are at work
    When the host steers the task "north" with "and east, please"
    And the model goes on at "north"
    And the host stops the task "south" because of "that is enough"
    And the answer arrives
    Then the answer is "Both are over"
    And a request told of "and east, please"
    And the calls gave these envelopes:
      | completed | north and east    |
      | cancelled | half of the south |
    And 0 tasks are at work

  Scenario: A killed task says so, and the session goes on
    Given the model calls task with {"description": "long", "prompt": "work long", "subagent_type": "general"}
    And the model answers "Without it, then"
    And the subagent of "work long" says "so far" and hangs at "long"
    When the host sends "Have it done"
    And the model waits at "long"
    And the host kills the task "long" because of "the host needs the room"
    And the answer arrives
    Then the answer is "Without it, then"
    And the newest request tells the model:
      | user   | Have it done            |
      | call   | task                    |
      | result | the host needs the room |
    And the calls gave these envelopes:
      | cancelled | the host needs the room |

  # The operator listens to the root and to nothing else.
  Scenario: The question of a subagent is asked at the root
    Given calls with the permission edit are asked about
    And the model calls task with {"description": "write", "prompt": "write a.txt", "subagent_type": "general"}
    And the model answers "Over"
    And the subagent of "write a.txt" calls write with {"path": "a.txt", "content": "a"}
    And the subagent of "write a.txt" answers "I tried"
    When the host sends "Go"
    And the operator answers the ask with once
    And the answer arrives
    Then the answer is "Over"
    And the file "a.txt" holds "a"
    And the events show in this order:
      | task_started  |         |
      | ask           | write   |
      | ask_closed    |         |
      | task_finished | I tried |

  Scenario: A subagent that does not exist is answered with those that do
    Given the model calls task with {"description": "x", "prompt": "do x", "subagent_type": "wizard"}
    And the model answers "I see"
    And the subagent of "do x" answers "never said"
    When the host asks "Go"
    Then the answer is "I see"
    And the newest request tells the model:
      | user   | Go                 |
      | call   | task               |
      | failed | explore or general |
    And the tape holds no task_started entry
    And nowhere was the model told "never said"

  Scenario: A task that is over is gone on with by its id, after a restart
    Given the model calls task with {"description": "first", "prompt": "learn a word", "subagent_type": "general"}
    And the model answers "Learnt"
    And the subagent of "learn a word" answers "the word is gong"
    And the subagent of "learn a word" answers "it was gong"
    When the host asks "Learn"
    And the runtime is shut down and started again
    And the model goes on with the task that was given first: "which word?"
    And the model then answers "Gong"
    And the host asks "Which word was it?"
    Then the answer is "Gong"
    And 2 tasks were given to one session
    And the calls gave these envelopes:
      | completed | the word is gong |
      | completed | it was gong      |

  # Two seconds are enough for the subagent to begin on a busy machine; the scenario takes as long.
  Scenario: A task ends at its deadline, with what it has
    Given the model calls task with {"description": "slow", "prompt": "be slow", "subagent_type": "general", "deadline_ms": 2000}
    And the model answers "Too late"
    And the subagent of "be slow" says "nearly" and hangs at "slow"
    When the host asks "Go"
    Then the answer is "Too late"
    And the calls gave these envelopes:
      | timed_out | nearly |
