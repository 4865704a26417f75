Feature: Code of the host stands at fixed points
  A gate may refuse, a pipe may rewrite; neither can break the session.

  @BDD-HOOK-001 @BDD-HOOK-004 @BDD-HOOK-018
  Scenario: A gate that lets everything pass changes nothing
    Given a gate of the host that lets everything pass
    And the file "x.txt" with "x marks"
    And the model calls read with {"path": "x.txt"}
    And the model answers "passed"
    When the host asks "Read"
    Then the answer is "passed"
    And the newest request tells the model:
      | user   | Read    |
      | call   | read    |
      | result | x marks |
    And the events show in this order:
      | call_started  | "name":"read" |
      | call_finished | "name":"read" |

  @EXT-ERR-001
  Scenario: The same gate twice lets a call pass as one does
    Given a gate of the host that lets everything pass
    And a gate of the host that lets everything pass
    And the file "x.txt" with "x marks"
    And the model calls read with {"path": "x.txt"}
    And the model answers "passed"
    When the host asks "Read"
    Then the answer is "passed"
    And the newest request tells the model:
      | user   | Read    |
      | call   | read    |
      | result | x marks |

  @BDD-HOOK-002 @BDD-HOOK-022
  Scenario: A turn begins and ends for all to see
    Given the model answers "ok"
    When the host asks "你好"
    Then the events show in this order:
      | turn_started  |
      | step_started  |
      | turn_finished |

  @BDD-HOOK-003
  Scenario: The end of a step names its calls
    Given the file "a.txt" with "first"
    And the file "d/b.txt" with "second"
    And the model calls in one answer:
      | tc_1 | read | {"path": "a.txt"} |
      | tc_2 | ls   | {"path": "."}     |
      | tc_3 | ls   | {"path": "d"}     |
    And the model calls read with {"path": "missing.txt"}
    And the model answers "ok"
    When the host asks "What is there?"
    Then each step ends with the names of its calls:
      | read, ls, ls |
      | read         |
      |              |

  # The blocked command left no file.
  @BDD-HOOK-006
  Scenario: One gate that blocks is enough
    Given a gate of the host that lets everything pass
    And a gate of the host that blocks bash
    And the model calls bash with {"command": "touch ran.txt"}
    And the model answers "blocked"
    When the host asks "Run"
    Then the answer is "blocked"
    And the file "ran.txt" does not exist

  # BDD-HOOK-009: two hooks, each adding its mark, in the order in which the host added them
  @BDD-HOOK-009 @R-02 @R-05
  Scenario: Result hooks are chained
    Given a result hook of the host that adds "[a]"
    And a result hook of the host that adds "[b]"
    And the file "x.txt" with "content"
    And the model calls read with {"path": "x.txt"}
    And the model answers "ok"
    When the host asks "Read"
    Then the newest request tells the model:
      | user   | Read          |
      | call   | read          |
      | result | content[a][b] |

  # BDD-HOOK-010: the text is changed; the details and the title of the real tool are as they were
  @BDD-HOOK-010
  Scenario: A result hook that changes the text leaves the rest
    Given a result hook of the host that adds "[a]"
    And the model calls bash with {"command": "echo out; exit 3"}
    And the model answers "ok"
    When the host asks "Run"
    Then the events show in this order:
      | call_finished | [a]                    |
    And the only call_finished event is about "\"exit_code\":3"
    And the only call_finished event is about "\"title\":\"echo out; exit 3\""

  # The changed text is what is on the tape and what the model is told.
  @BDD-HOOK-012 @BDD-E2E-018 @R-02
  Scenario: An input hook changes what was said
    Given an input hook of the host that puts "[filtered] " before each message
    And the model answers "ok"
    When the host asks "原文"
    Then the newest request tells the model:
      | user | [filtered] 原文 |
    And the conversation reads:
      | user      | [filtered] 原文 |
      | assistant | ok              |

  # The sender is told, the model is not asked, and nothing is on the tape.
  @BDD-HOOK-013 @R-02
  Scenario: An input hook deals with a message itself
    Given an input hook of the host that deals with every message itself
    And the model answers "不应到达"
    When the host sends "你好"
    Then the message was refused with "a hook handled the message"
    And the model was asked 0 times
    And the text "你好" is nowhere on the tape

  # The crash of the second gate is never reported, for it was not asked.
  @BDD-HOOK-019 @R-05
  Scenario: After a refusal no other gate is asked
    Given a gate of the host that blocks read
    And a gate of the host that crashes
    And the model calls read with {"path": "x.txt"}
    And the model answers "ok"
    When the host asks "Read"
    Then the answer is "ok"
    And 0 hook_error events were shown
    And the events show in this order:
      | call_finished | read is not allowed here |

  # The hook was asked; its message goes to the model and stands on the tape as it was.
  @BDD-HOOK-020 @R-02
  Scenario: A message that an input hook passes on goes on as it was
    Given an input hook of the host that passes every message on
    And the model answers "ok"
    When the host asks "保持原样"
    Then the input hook was asked about "保持原样"
    And the newest request tells the model:
      | user | 保持原样 |
    And the conversation reads:
      | user      | 保持原样 |
      | assistant | ok       |
    And the tape holds in this order:
      | accepted | "保持原样" |

  Scenario: An input hook that passes a message on leaves it as the hook before it made it
    Given an input hook of the host that puts "[first] " before each message
    And an input hook of the host that passes every message on
    And the model answers "ok"
    When the host asks "原文"
    Then the input hook was asked about "[first] 原文"
    And the newest request tells the model:
      | user | [first] 原文 |

  # BDD-HOOK-007: it is the compaction itself that asks the gate, and no test in its place.
  @BDD-HOOK-007 @R-01
  Scenario: A gate keeps the conversation from being summed up
    Given a gate of the host that lets nobody sum up the conversation
    And the model answers "ok"
    When the host asks "你好"
    Then nobody can sum up the conversation, because "the case is open"
    And 0 compaction_started events were shown
    And the session goes on working

  # BDD-HOOK-011: the reminder is in each request and nowhere in the conversation
  @BDD-HOOK-011 @R-02 @R-07 @P-06
  Scenario: A hook reminds the model of something in each request
    Given a hook of the host that reminds the model of "Answer in Chinese." in each request
    And the file "x.txt" with "x marks"
    And the model calls read with {"path": "x.txt"}
    And the model answers "好的"
    When the host asks "Read"
    Then the newest request tells the model:
      | user   | Read    |
      | call   | read    |
      | result | x marks |
    And the newest request reminds the model of "Answer in Chinese."
    And the events show in this order:
      | request_prepared | "reminders":1 |
      | request_prepared | "reminders":1 |

  @R-02
  Scenario: A hook keeps something from the model that stays in the conversation
    Given a hook of the host that leaves "secret" out of each request
    And the model answers "one"
    And the model answers "two"
    When the host asks "secret plans"
    And the host asks "What did I say?"
    Then the newest request tells the model:
      | model | one             |
      | user  | What did I say? |
    And the conversation reads:
      | user      | secret plans    |
      | assistant | one             |
      | user      | What did I say? |
      | assistant | two             |

  # BDD-HOOK-014: said once for the turn, and not again with each of its requests
  @BDD-HOOK-014 @R-03
  Scenario: A hook adds to a turn where it begins
    Given a hook of the host that begins each turn under "Speak like a gong." and with "It is Tuesday."
    And the file "x.txt" with "x marks"
    And the model calls read with {"path": "x.txt"}
    And the model answers "gong"
    When the host asks "Read"
    Then the newest request tells the model:
      | user   | Read           |
      | user   | It is Tuesday. |
      | call   | read           |
      | result | x marks        |
    And the system prompt of request 1 ends with "Speak like a gong."
    And the system prompt of request 2 ends with "Speak like a gong."

  @R-01
  Scenario: A gate has a person asked about what the rules allow
    Given the profile auto
    And a gate of the host that has a person asked about write because "it is Friday"
    And the model calls write with {"path": "a.txt", "content": "x"}
    And the model answers "written"
    When the host sends "Write"
    And the operator is asked about write
    Then the file "a.txt" does not exist
    When the operator answers the ask with once
    And the answer to message 1 arrives
    Then the answer is "written"
    And the file "a.txt" holds "x"
    And the events show in this order:
      | call_gated | it is Friday      |
      | ask        | ask: it is Friday |

  # The file that the model named is not there; the one that the hook named is, and the rules were asked about it.
  @R-01
  Scenario: A gate has a call work elsewhere, as far as the rules allow it
    Given the profile edits
    And a gate of the host that sends each write to "draft.txt"
    And the model calls write with {"path": "final.txt", "content": "x"}
    And the model answers "written"
    When the host asks "Write"
    Then the file "final.txt" does not exist
    And the file "draft.txt" holds "x"

  @R-01
  Scenario: A gate cannot have a call do what the rules deny
    Given the profile readonly
    And a gate of the host that sends each read to "/etc/hostname"
    And the file "x.txt" with "x marks"
    And the model calls read with {"path": "x.txt"}
    And the model answers "I may not"
    When the host asks "Read"
    Then the answer is "I may not"
    And the events show in this order:
      | call_gated    | /etc/hostname     |
      | call_finished | Permission denied |

  @R-12
  Scenario: A hook sends a turn on once
    Given a hook of the host that sends each turn on with "Run the tests first."
    And the model answers "Done."
    And the model answers "The tests pass. Done."
    When the host asks "Go"
    Then the answer is "The tests pass. Done."
    And the newest request tells the model:
      | user  | Go                   |
      | model | Done.                |
      | user  | Run the tests first. |

  @R-06
  Scenario: A hook that never answers costs its turn five seconds, and the turn says so
    Given a hook of the host that never answers about a request
    And the model answers "不应到达"
    When the host asks "你好"
    Then the turn failed with "the hook hang failed in on_context (took longer than 5 s)"
    And the model was asked 0 times

  @R-11
  Scenario: A hook watches what goes wrong
    Given a hook of the host that watches errors
    And the model calls read with {"path": "missing.txt"}
    And the model answers "There is none."
    When the host asks "Read"
    Then the hook was shown the error call_finished
