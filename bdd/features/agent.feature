Feature: A host talks with an agent that uses tools
  The model follows a script; the runtime, the tape, the tools and the files are real.

  @BDD-AGENT-001 @A-07 @B-13
  Scenario: A plain answer comes back
    Given the model answers "你好，我是 Gong！"
    When the host asks "你好"
    Then the answer is "你好，我是 Gong！"
    And the newest request tells the model:
      | user | 你好 |
    And the session goes on working

  @BDD-AGENT-002
  Scenario: The agent reads a file before it answers
    Given the file "hello.txt" with "Hello World"
    And the model calls read_file with {"file_path": "hello.txt"}
    And the model answers "The file says Hello World"
    When the host asks "What does hello.txt say?"
    Then the answer is "The file says Hello World"
    And the newest request tells the model:
      | user   | What does hello.txt say? |
      | call   | read_file                |
      | result | Hello World              |
    And the events show in this order:
      | call_started  | "name":"read" |
      | call_finished | Hello World   |

  @BDD-AGENT-003 @B-01 @B-09
  Scenario: Two files are written in two steps
    Given the model calls write with {"path": "out1.txt", "content": "hello"}
    And the model calls write with {"path": "out2.txt", "content": "world"}
    And the model answers "两个文件都写好了"
    When the host asks "Write both"
    Then the answer is "两个文件都写好了"
    And the turn took 3 steps
    And the file "out1.txt" holds "hello"
    And the file "out2.txt" holds "world"
    And 2 call_finished events were shown

  @BDD-AGENT-004
  Scenario: A new file has exactly what the model gave
    Given the model calls write with {"path": "output.txt", "content": "written by gong"}
    And the model answers "文件已写入"
    When the host asks "Write output.txt"
    Then the answer is "文件已写入"
    And the file "output.txt" holds "written by gong"

  @BDD-AGENT-005
  Scenario: An edit changes the one place it names
    Given the file "code.py" with "print('hello')"
    And the model calls edit with {"path": "code.py", "old_string": "hello", "new_string": "world"}
    And the model answers "改好了"
    When the host asks "Say world in code.py"
    Then the answer is "改好了"
    And the file "code.py" holds "print('world')"

  @BDD-AGENT-006
  Scenario: The agent searches the contents of files
    Given the file "src/app.py" with "def main():\n    pass\n"
    And the model calls grep with {"pattern": "main"}
    And the model answers "main is in src/app.py"
    When the host asks "Where is main?"
    Then the answer is "main is in src/app.py"
    And the newest request tells the model:
      | user   | Where is main? |
      | call   | grep           |
      | result | src/app.py     |
    And the events show in this order:
      | call_started  | "name":"grep" |
      | call_finished | def main      |

  @BDD-AGENT-007
  Scenario: The agent finds files by name
    Given the file "a.py" with "1"
    And the file "b.py" with "2"
    And the file "c.txt" with "3"
    And the model calls find with {"pattern": "*.py"}
    And the model answers "两个 Python 文件"
    When the host asks "Which Python files are there?"
    Then the answer is "两个 Python 文件"
    And the events show in this order:
      | call_finished | a.py |
    And the events show in this order:
      | call_finished | b.py |
    And nowhere was the model told "c.txt"

  @BDD-AGENT-008
  Scenario: The agent lists a folder
    Given the file "one.txt" with "1"
    And the file "two.txt" with "2"
    And the model calls ls with {"path": "."}
    And the model answers "共 2 个文件"
    When the host asks "What is here?"
    Then the answer is "共 2 个文件"
    And the newest request tells the model:
      | user   | What is here?    |
      | call   | ls               |
      | result | 1B one.txt\n        1B two.txt |

  # Played by a script with the real runtime; no provider is asked.
  @BDD-AGENT-009
  Scenario: A sum
    Given the model answers "2"
    When the host asks "1+1=? digits only"
    Then the answer is "2"

  # Played by a script with the real read tool; the content went to the model.
  @BDD-AGENT-010
  Scenario: A file is read on request
    Given the file "test.txt" with "E2E test content"
    And the model calls read with {"path": "test.txt"}
    And the model answers "It says: E2E test content"
    When the host asks "Read test.txt"
    Then the answer is "It says: E2E test content"
    And the newest request tells the model:
      | user   | Read test.txt    |
      | call   | read             |
      | result | E2E test content |

  # Played by a script with the real write tool; the file is on the disk.
  @BDD-AGENT-011
  Scenario: A file is made on request
    Given the model calls write with {"path": "hello.txt", "content": "hello from gong"}
    And the model answers "done"
    When the host asks "Make hello.txt"
    Then the file "hello.txt" holds "hello from gong"
    And the only call_finished event is about "\"name\":\"write\""

  # Played by a script with the real tools; the file is changed on the disk.
  @BDD-AGENT-012
  Scenario: A file is read and then changed on request
    Given the file "data.txt" with "original data"
    And the model calls read with {"path": "data.txt"}
    And the model calls edit with {"path": "data.txt", "old_string": "original", "new_string": "modified"}
    And the model answers "done"
    When the host asks "Change original to modified in data.txt"
    Then the file "data.txt" holds "modified data"
    And the events show in this order:
      | call_finished | "name":"read" |
      | call_finished | "name":"edit" |

  @BDD-AGENT-013
  Scenario: A turn begins and ends for all to see
    Given the model answers "路由成功"
    When the host asks "你好"
    Then the answer is "路由成功"
    And the events show in this order:
      | turn_started  |          |
      | turn_finished | 路由成功 |

  @BDD-AGENT-014
  Scenario: An answer with nothing in it ends its turn
    Given the model answers ""
    When the host asks "你好"
    Then the answer is ""
    And the events show in this order:
      | turn_started  |      |
      | turn_finished | done |
    And the session goes on working

  @BDD-AGENT-015
  Scenario: Chinese text is passed on unchanged
    Given the model answers "中文回复：一切正常。"
    When the host asks "请用中文回答"
    Then the answer is "中文回复：一切正常。"
    And the tape holds in this order:
      | accepted | 请用中文回答         |
      | answer   | 中文回复：一切正常。 |

  # BDD-AGENT-016: 40,000 characters come back byte for byte, in the answer and on the tape
  @BDD-AGENT-016
  Scenario: A long Chinese text is passed on unchanged
    Given the model answers "长文本返回" 8000 times over
    When the host asks "写一篇长文"
    Then the answer is "长文本返回" 8000 times over
    And the tape holds in this order:
      | answer | 长文本返回长文本返回 |

  @BDD-AGENT-017 @B-12
  Scenario: Turn and step begin and end in their order
    Given the model answers "好"
    When the host asks "你好"
    Then exactly these durable events were shown:
      | queued        |
      | turn_started  |
      | step_started  |
      | part_updated  |
      | step_finished |
      | turn_finished |

  # BDD-AGENT-018: folder, file and content are Chinese, and the model is told the content
  @BDD-AGENT-018
  Scenario: A path may be Chinese
    Given the file "数据/测试.txt" with "中文路径下的内容"
    And the model calls read with {"path": "数据/测试.txt"}
    And the model answers "中文路径没有问题"
    When the host asks "读一下"
    Then the answer is "中文路径没有问题"
    And the newest request tells the model:
      | user   | 读一下           |
      | call   | 数据/测试.txt    |
      | result | 中文路径下的内容 |

  # TOOL-EDGE-006: the result names the tools there are, and the model goes on with that
  @BDD-AGENT-019 @TOOL-EDGE-006 @E-12
  Scenario: A tool that does not exist is an answer to the model, not a crash
    Given the model calls nonexistent_tool with {"a": 1}
    And the model answers "换个方式"
    When the host asks "Use it"
    Then the answer is "换个方式"
    And the newest request tells the model:
      | user   | Use it                                                           |
      | call   | nonexistent_tool                                                 |
      | failed | Available tools: bash, edit, find, grep, ls, read, write         |
    And the events show in this order:
      | call_finished | nonexistent_tool |
    And the session goes on working

  @BDD-AGENT-020
  Scenario: A command changes the workspace
    Given the model calls bash with {"command": "echo ok > bash_out.txt"}
    And the model answers "done"
    When the host asks "Run it"
    Then the answer is "done"
    And the file "bash_out.txt" holds "ok\n"

  @BDD-AGENT-021 @K-07
  Scenario: A refused key ends the turn at once
    Given the model fails as auth with "authentication failed: invalid API key"
    When the host asks "你好"
    Then the turn failed with "authentication failed"
    And the model was asked 1 time
    And the events show in this order:
      | turn_started   |                       |
      | request_failed | authentication failed |
      | turn_finished  | failed                |
    And 0 retry events were shown
    And the session goes on working

  @BDD-AGENT-022
  Scenario: A file that is not there is an answer to the model
    Given the model calls read with {"path": "/nonexistent/file.txt"}
    And the model answers "文件不存在"
    When the host asks "Read it"
    Then the answer is "文件不存在"
    And the newest request tells the model:
      | user   | Read it               |
      | call   | /nonexistent/file.txt |
      | failed | No such file          |
    And the events show in this order:
      | call_started  | read |
      | call_finished | read |

  # The command and its child are gone from the process table after the timeout.
  @BDD-AGENT-023
  Scenario: A command that never ends is ended at its time limit
    Given the model calls bash with {"command": "tail -f /dev/null & echo $! > pid; wait", "timeout": 1}
    And the model answers "命令超时"
    When the host asks "Run it"
    Then the answer is "命令超时"
    And the newest request tells the model:
      | user   | Run it                  |
      | call   | bash                    |
      | result | timed out after 1 seconds |
    And the process of "pid" is gone
    And the events show in this order:
      | call_started  | bash             |
      | call_finished | "timed_out":true |

  @BDD-AGENT-024
  Scenario: A protected file stays as it is
    Given the protected file "readonly.txt" with "protected"
    And the model calls write with {"path": "readonly.txt", "content": "overwritten"}
    And the model answers "写入被拒绝"
    When the host asks "Overwrite it"
    Then the answer is "写入被拒绝"
    And the file "readonly.txt" holds "protected"
    And the newest request tells the model:
      | user   | Overwrite it |
      | call   | write        |
      | failed | readonly.txt |

  @BDD-AGENT-025 @B-14
  Scenario: Two failing calls in a row do not end the turn
    Given the model calls read with {"path": "missing1.txt"}
    And the model calls read with {"path": "missing2.txt"}
    And the model answers "两次都失败了"
    When the host asks "Read both"
    Then the answer is "两次都失败了"
    And the newest request tells the model:
      | user   | Read both    |
      | call   | missing1.txt |
      | failed | ENOENT       |
      | call   | missing2.txt |
      | failed | ENOENT       |
    And the session goes on working

  @BDD-AGENT-026
  Scenario: The agent is alive after its answer
    Given the model answers "好的"
    When the host asks "你好"
    Then the answer is "好的"
    And the session goes on working

  # BDD-AGENT-027: the deltas are the runtime's own events, and joined they are the answer on the tape
  @BDD-AGENT-027
  Scenario: An answer is shown while it is written
    Given the model answers in pieces:
      | text | 流式 |
      | text | 回复 |
    When the host asks "你好"
    Then the answer is "流式回复"
    And the text was shown in these pieces:
      | 流式 |
      | 回复 |
    And the events show in this order:
      | step_started  |          |
      | text_delta    | 流式     |
      | text_delta    | 回复     |
      | part_updated  | 流式回复 |
      | step_finished |          |

  @BDD-AGENT-028 @B-11
  Scenario: A tool runs between two streamed answers
    Given the file "s.txt" with "streamed"
    And the model answers in pieces:
      | text | 我看看             |
      | call | read {"path": "s.txt"} |
    And the model answers in pieces:
      | text | 文件内容是 |
      | text | streamed   |
    When the host asks "s.txt?"
    Then the answer is "文件内容是streamed"
    And the events show in this order:
      | text_delta    | 我看看   |
      | call_pending  | read     |
      | call_finished | streamed |
      | text_delta    | streamed |

  # BDD-AGENT-029: the command did not run (its file is not there), and the model is told who blocked it
  # BDD-HOOK-005: the call has no effect and one result, a failure that says that a hook blocked it; the turn goes on
  @BDD-AGENT-029 @BDD-HOOK-005 @BDD-E2E-014 @R-01
  Scenario: A gate of the host blocks a tool
    Given a gate of the host that blocks bash
    And the model calls bash with {"command": "echo hack > hacked.txt"}
    And the model answers "工具被拦截了"
    When the host asks "Run it"
    Then the answer is "工具被拦截了"
    And the file "hacked.txt" does not exist
    And the newest request tells the model:
      | user   | Run it          |
      | call   | bash            |
      | failed | Blocked by hook |

  # BDD-AGENT-030: the key is neither in any request nor on the tape
  # BDD-HOOK-008: the result that the model reads has [REDACTED] in the place of the key, and the rest as it was
  @BDD-AGENT-030 @BDD-HOOK-008 @BDD-E2E-015
  Scenario: A result hook hides a key from the model
    Given a result hook of the host that hides keys
    And the file "key.txt" with "API_KEY=sk-1234567890abcdefghijklmnopqrstuv ok"
    And the model calls read with {"path": "key.txt"}
    And the model answers "The key is [REDACTED]"
    When the host asks "What is the key?"
    Then the answer is "The key is [REDACTED]"
    And nowhere was the model told "sk-1234567890"
    And the newest request tells the model:
      | user   | What is the key?      |
      | call   | read                  |
      | result | API_KEY=[REDACTED] ok |
    And the text "sk-1234567890" is nowhere on the tape

  # BDD-AGENT-031: the first call really ran, the other two never did, and all three are answered before the message
  @BDD-AGENT-031 @A-05 @T-01 @T-02
  Scenario: A message in mid-turn skips the calls that were not started
    Given the file "keep.txt" with "kept content"
    And calls of read are held
    And the model calls in one answer:
      | tc_1 | read  | {"path": "keep.txt"}                    |
      | tc_2 | write | {"path": "skip1.txt", "content": "no"} |
      | tc_3 | write | {"path": "skip2.txt", "content": "no"} |
    And the model answers "两个写入被跳过"
    When the host sends "Read one, write two"
    And a call of read is held
    And the host steers "用户中断"
    And the call of read goes on
    And the answer to message 1 arrives
    Then the answer is "两个写入被跳过"
    And the newest request tells the model:
      | user   | Read one, write two                                              |
      | call   | tc_1 read                                                        |
      | call   | tc_2 write                                                       |
      | call   | tc_3 write                                                       |
      | result | kept content                                                     |
      | failed | tc_2 write: Skipped due to queued user message: write |
      | failed | tc_3 write: Skipped due to queued user message: write |
      | user   | 用户中断                                                         |
    And the file "skip1.txt" does not exist
    And the file "skip2.txt" does not exist

  # BDD-AGENT-032: the next request holds the skip result and then the message, and the model acts on it
  @BDD-AGENT-032 @T-03
  Scenario: A message in mid-turn changes what the agent does next
    Given the file "keep.txt" with "kept content"
    And the file "data.txt" with "the data"
    And calls of read are held
    And the model calls in one answer:
      | tc_1 | read  | {"path": "keep.txt"}                   |
      | tc_2 | write | {"path": "nope.txt", "content": "no"} |
    And the model calls read with {"path": "data.txt"}
    And the model answers "收到中断"
    When the host sends "Read, then write"
    And a call of read is held
    And the host steers "请改为读取 data.txt"
    And the call of read goes on
    And the answer to message 1 arrives
    Then the answer is "收到中断"
    And request 2 tells the model:
      | user   | Read, then write                      |
      | call   | tc_1                                  |
      | call   | tc_2                                  |
      | result | tc_1 read                             |
      | failed | Skipped due to queued user message    |
      | user   | 请改为读取 data.txt                   |
    And the file "nope.txt" does not exist
    And the events show in this order:
      | call_finished | the data |

  # BDD-AGENT-033: the request is made again after the wait, and nothing is compacted
  @BDD-AGENT-033 @J-28
  Scenario: A rate limit is waited for
    Given the model fails as rate_limited with "429 rate limit exceeded" and may be asked again after 5 ms
    And the model answers "重试成功"
    When the host asks "你好"
    Then the answer is "重试成功"
    And the model was asked 2 times
    And the events show in this order:
      | request_failed | rate_limited |
      | retry          | "attempt":1  |
      | turn_finished  | 重试成功     |
    And the tape holds no compacted entry

  @BDD-AGENT-034 @K-10
  Scenario: A lost connection is tried again, and the turn goes on with its tools
    Given the file "r.txt" with "after the retry"
    And the model fails as network with "connection timeout"
    And the model calls read with {"path": "r.txt"}
    And the model answers "读到了"
    When the host asks "Read r.txt"
    Then the answer is "读到了"
    And the events show in this order:
      | request_failed | connection timeout |
      | retry          | "attempt":1        |
      | call_finished  | after the retry    |

  @BDD-AGENT-035
  Scenario: A turn whose retries are used up says so
    Given the model fails as rate_limited with "429 rate limit" and may be asked again after 5 ms
    And the model fails as rate_limited with "429 rate limit" and may be asked again after 5 ms
    And the model fails as rate_limited with "429 rate limit" and may be asked again after 5 ms
    And the model fails as rate_limited with "429 rate limit" and may be asked again after 5 ms
    When the host asks "你好"
    Then the turn failed with "429 rate limit (gave up after 3 retries)"
    And the model was asked 4 times
    And 3 retry events were shown
    And the session goes on working

  @BDD-AGENT-038
  Scenario: A file is written and read back in one turn
    Given the model calls write with {"path": "state_test.txt", "content": "state ok"}
    And the model calls read with {"path": "state_test.txt"}
    And the model answers "状态一致"
    When the host asks "Write and read it"
    Then the answer is "状态一致"
    And the file "state_test.txt" holds "state ok"
    And the events show in this order:
      | call_finished | "name":"write" |
      | call_finished | state ok       |

  # The second prompt waits; the model is never asked twice at the same time.
  @BDD-AGENT-038 @B-02 @C-14
  Scenario: A second prompt waits for its turn
    Given the model answers in pieces:
      | gate | first |
      | text | 一    |
    And the model answers "二"
    When the host sends "第一"
    And the model waits at "first"
    And the host sends "第二"
    Then the model was asked 1 time
    And these messages wait:
      | 第二 |
    When the model goes on at "first"
    And the answer arrives
    Then the answer is "二"
    And the conversation reads:
      | user      | 第一 |
      | assistant | 一   |
      | user      | 第二 |
      | assistant | 二   |

  # The second prompt is refused, and nothing of it is on the tape.
  @BDD-AGENT-038
  Scenario: A prompt that is only for an idle session is refused by a busy one
    Given the model answers in pieces:
      | gate | first |
      | text | 一    |
    When the host sends "第一"
    And the model waits at "first"
    And the host sends "第二" only if the session is idle
    Then the message was refused with "busy"
    And the text "第二" is nowhere on the tape
    When the model goes on at "first"
    And the answer arrives
    Then the answer is "一"

  @BDD-AGENT-039
  Scenario: One of two reads fails, and both are answered
    Given the file "exist.txt" with "I exist"
    And the model calls in one answer:
      | tc_1 | read | {"path": "exist.txt"}              |
      | tc_2 | read | {"path": "/nonexistent/ghost.txt"} |
    And the model answers "一个成功一个失败"
    When the host asks "Read both"
    Then the answer is "一个成功一个失败"
    And the newest request tells the model:
      | user   | Read both |
      | call   | tc_1      |
      | call   | tc_2      |
      | result | I exist   |
      | failed | tc_2      |

  # After an abort in mid-batch every call has its result, and the next request is valid.
  @BDD-AGENT-039
  Scenario: No call is left without a result after an interruption
    Given calls of read are held
    And the model calls in one answer:
      | tc_1 | read  | {"path": "exist.txt"}                 |
      | tc_2 | write | {"path": "no.txt", "content": "no"} |
    When the host sends "Read and write"
    And a call of read is held
    And the host aborts because of "user"
    And the answer arrives
    Then the turn was aborted because of "user"
    Given the model answers "继续"
    When the host asks "Go on"
    Then the answer is "继续"
    And the newest request tells the model:
      | user   | Read and write |
      | call   | tc_1           |
      | call   | tc_2           |
      | failed | tc_1 read      |
      | failed | tc_2 write     |
      | user   | Go on          |
    And the file "no.txt" does not exist

  # TOOL-EDGE-007: an answer without any part leaves no empty message for the next request
  @BDD-AGENT-040 @TOOL-EDGE-007
  Scenario: An empty answer disturbs no later request
    Given the model answers with nothing
    And the model answers "这次有内容"
    When the host asks "一"
    And the host asks "二"
    Then the answer is "这次有内容"
    And the newest request tells the model:
      | user | 一 |
      | user | 二 |

  # BDD-AGENT-041: each result stands under the id of its own call
  @BDD-AGENT-041
  Scenario: Results of calls that run together belong to their own ids
    Given the file "a.txt" with "content a"
    And the file "b.txt" with "content b"
    And the file "c.txt" with "content c"
    And the model calls in one answer:
      | tc_a | read | {"path": "a.txt"} |
      | tc_b | read | {"path": "b.txt"} |
      | tc_c | read | {"path": "c.txt"} |
    And the model answers "三个都读到了"
    When the host asks "Read three"
    Then the answer is "三个都读到了"
    And the newest request tells the model:
      | user   | Read three                 |
      | call   | tc_a                       |
      | call   | tc_b                       |
      | call   | tc_c                       |
      | result | tc_a read:      1 content a |
      | result | tc_b read:      1 content b |
      | result | tc_c read:      1 content c |

  # BDD-AGENT-041: the tape has the results as they came, the request has them in call order
  @BDD-AGENT-041 @B-15 @C-15
  Scenario: Results stand in call order though the first call ends last
    Given the file "a.txt" with "content a"
    And calls of read are held
    And the model calls in one answer:
      | tc_a | read | {"path": "a.txt"} |
      | tc_b | ls   | {"path": "."}     |
      | tc_c | find | {"pattern": "*"}  |
    And the model answers "done"
    When the host sends "Read and look"
    And the call tc_b is over
    And the call tc_c is over
    And the call of read goes on
    And the answer arrives
    Then the tape holds in this order:
      | result |           |
      | result |           |
      | result | content a |
    And the newest request tells the model:
      | user   | Read and look |
      | call   | tc_a          |
      | call   | tc_b          |
      | call   | tc_c          |
      | result | tc_a read     |
      | result | tc_b ls       |
      | result | tc_c find     |

  # The host's own finder of models is asked, and its model answers.
  @BDD-AGENT-042 @SESSION-BACKEND-001 @SESSION-BACKEND-002
  Scenario: A host brings its own models and finds them by name
    Given the models of the host are found by name, and the session uses "mock:mock-chat"
    And the model answers "backend 适配成功"
    When the host asks "你好"
    Then the answer is "backend 适配成功"
    And the events show in this order:
      | step_started | mock/mock-chat |

  # A-15: a message that is sent becomes an entry, joins the history of its turn, and goes with the session's model into a request
  @A-15
  Scenario: What is sent becomes a message, and the session's model is asked about it
    Given the models of the host are found by name, and the session uses "house/small"
    And the model answers "一"
    And the model answers "二"
    When the host asks "第一"
    And the host asks "第二"
    Then the answer is "二"
    And the tape holds in this order:
      | accepted      | 第一  |
      | delivered     |       |
      | request       | small |
      | answer        | 一    |
      | turn_finished | done  |
      | accepted      | 第二  |
      | delivered     |       |
      | request       | small |
      | answer        | 二    |
    And the newest request tells the model:
      | user  | 第一 |
      | model | 一   |
      | user  | 第二 |

  @BDD-AGENT-043
  Scenario: A host's own model uses the tools
    Given the models of the host are found by name, and the session uses "mock:mock-chat"
    And the file "adapter.txt" with "adapter data"
    And the model calls read with {"path": "adapter.txt"}
    And the model answers "adapter data"
    When the host asks "Read it"
    Then the answer is "adapter data"
    And the newest request tells the model:
      | user   | Read it      |
      | call   | read         |
      | result | adapter data |

  @BDD-AGENT-044
  Scenario: The error of a host's own model reaches the host
    Given the models of the host are found by name, and the session uses "mock:mock-chat"
    And the model fails as auth with "auth failed permanently"
    When the host asks "你好"
    Then the turn failed with "auth failed permanently"

  @TOOL-EDGE-002
  Scenario: The name of a tool may be written in another case
    Given the file "x.txt" with "found"
    And the model calls Read_File with {"path": "x.txt"}
    And the model answers "ok"
    When the host asks "Read"
    Then the newest request tells the model:
      | user   | Read      |
      | call   | Read_File |
      | result | found     |

  @TOOL-EDGE-003
  Scenario: The id of a call may be odd
    Given the file "x.txt" with "found"
    And the model calls in one answer:
      | call:id/with-special_chars.123 | read | {"path": "x.txt"} |
    And the model answers "ok"
    When the host asks "Read"
    Then the answer is "ok"
    And the newest request tells the model:
      | user   | Read                                        |
      | call   | call:id/with-special_chars.123 read         |
      | result | call:id/with-special_chars.123 read:        |

  # The permission rules let the call run, the file is written, and the turn ends with stop.
  @B-23
  Scenario: A program is made
    Given the profile auto
    And the model calls write with {"path": "hello.py", "content": "print('hello')\n"}
    And the model answers "hello.py is there"
    When the host asks "Create hello.py"
    Then the answer is "hello.py is there"
    And the file "hello.py" holds "print('hello')\n"
    And the turn took 2 steps

  @H-14
  Scenario: An operator is asked, and allows a command once
    Given the profile ask
    And the model calls bash with {"command": ": > asked.txt"}
    And the model answers "done"
    When the host sends "Run it"
    And the operator answers the ask with once
    And the answer arrives
    Then the answer is "done"
    And the events show in this order:
      | ask          | : > asked.txt |
      | ask_closed   | once            |
      | call_started | : > asked.txt |
    And the file "asked.txt" holds ""

  Scenario: A command that nobody was asked about runs confined, and an operator is asked about what it was refused
    Given the profile ask
    And the model calls bash with {"command": "touch asked.txt"}
    And the model answers "done"
    When the host sends "Run it"
    And the operator answers the ask with once
    And the answer arrives
    Then the answer is "done"
    And the events show in this order:
      | call_started  | touch asked.txt                  |
      | ask           | Run it again without confinement |
      | ask_closed    | once                             |
      | call_finished | touch asked.txt                  |
    And the file "asked.txt" holds ""

  @Q-02 @H-16 @C-06
  Scenario: An operator rejects a command with a word to the model
    Given the profile ask
    And the model calls bash with {"command": ": > asked.txt"}
    And the model answers "Then I will not"
    When the host sends "Run it"
    And the operator rejects the ask with "use make instead"
    And the answer arrives
    Then the answer is "Then I will not"
    And the file "asked.txt" does not exist
    And the newest request tells the model:
      | user   | Run it           |
      | call   | bash             |
      | failed | use make instead |
