package client_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/client"
)

// token is a chunk with the id that a good engine reports.
func (s *scene) token(task string, attempt int, n uint64, text string) {
	s.frame(task, &bus.Chunk{Task: task, Attempt: attempt, Seq: n, Text: text, Count: 1,
		Tokens: []uint32{uint32(100 + n)}})
}

// goesOn makes the door give a task that is to go on to agent "next", which says the rest.
func (s *scene) goesOn(rest func(t *bus.Task)) {
	s.door = func(m bus.Msg, t *bus.Task) {
		if t.Resume == nil {
			s.accept(m, t)
			return
		}
		s.say(m.Reply, &bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: t.ID, Hub: "h", Agent: "next",
			Model: "m", Reply: bus.ReplyTo("ada", t.ID)}})
		rest(t)
	}
}

// nobodyGoesOn makes the door refuse a task that is to go on.
func (s *scene) nobodyGoesOn(code bus.Code, why string) {
	s.door = func(m bus.Msg, t *bus.Task) {
		if t.Resume == nil {
			s.accept(m, t)
			return
		}
		s.say(m.Reply, &bus.Answer{Result: &bus.Result{Client: "ada", Task: t.ID, Code: code, Message: why}})
	}
}

// sendsAgain makes the agent send what it is asked for of three tokens, a, b and c.
func (s *scene) sendsAgain() {
	s.resumed = func(task string, from uint64) {
		for n := from; n < 3; n++ {
			s.token(task, 0, n, string(rune('a'+n)))
		}
		s.end(task, 3, "")
	}
}

func (s *scene) ended(task string, attempt int, chunks uint64) {
	s.frame(task, &bus.Chunk{Task: task, Attempt: attempt, Seq: chunks, Result: &bus.Result{
		Client: "ada", Task: task, Hub: "h", Agent: "next", Chunks: chunks, Finish: "stop", Cost: 5,
		Receipt: &bus.Receipt{ID: "j/2/0", Earlier: []string{"j/1/0"}}}})
}

func chatBody(b string) bus.Task { return bus.Task{ID: "t", Body: []byte(b)} }

// The agent says that its engine failed, or says nothing any more: the reader's tokens and text go to the hub
// that has the task, and the stream goes on where it was. What the first agent says later is not heard.
func TestAnAnswerGoesOnElsewhere(t *testing.T) {
	for name, fails := range map[string]func(s *scene){
		"the agent says so": func(s *scene) { s.end("t", 2, bus.CodeEngineFailed) },
		"the agent was started again, and knows nothing of it": func(s *scene) {
			s.frame("t", &bus.Chunk{Task: "t", Seq: 2,
				Result: &bus.Result{Client: "ada", Task: "t", Agent: "agent", Code: bus.CodeUnknown}})
		},
		"the agent is silent":  func(s *scene) {},
		"there is a gap":       func(s *scene) { s.token("t", 0, 4, "never") },
		"it fails after a gap": func(s *scene) { s.token("t", 0, 4, "never") },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.goesOn(func(task *bus.Task) {
					s.token("t", 0, 2, "late")
					s.token("t", task.Attempt, 2, "c")
					s.token("t", task.Attempt, 3, "d")
					s.ended("t", task.Attempt, 4)
				})
				st := s.submit("t")
				s.token("t", 0, 0, "a")
				s.token("t", 0, 1, "b")
				fails(s)
				wantRead(t, st, "abcd", "")
				if len(s.tasks) != 2 {
					t.Fatalf("the door got %d tasks, want 2", len(s.tasks))
				}
				again := s.tasks[1]
				if r := again.Resume; r == nil || r.Agent != "agent" || r.Seq != 2 || r.Text != "ab" ||
					len(r.Tokens) != 2 || r.Tokens[1] != 101 ||
					again.Hub != "h" || again.Attempt != 1 || string(again.Body) != string(s.tasks[0].Body) {
					t.Errorf("sent again as %+v of %+v", r, again)
				}
				if r, ok := st.Result(); !ok || r.Agent != "next" || len(r.Receipt.Earlier) != 1 ||
					st.Accepted().Agent != "next" {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// The hub names a new agent where the chunks come, and the market's own word on that never comes: once the
// answer has ended nothing of it is waited for, and nothing keeps it.
func TestAnAnswerEndsBeforeTheVerdictOnIt(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) {
			if task.Resume == nil {
				s.accept(m, task)
				return
			}
			s.frame("t", &bus.Chunk{Task: "t", Attempt: task.Attempt, Seq: 1, Heartbeat: true, Agent: "next"})
			s.token("t", task.Attempt, 1, "b")
			s.ended("t", task.Attempt, 2)
		}
		st := s.submit("t")
		s.token("t", 0, 0, "a")
		s.end("t", 1, bus.CodeEngineFailed)
		wantRead(t, st, "ab", "")
		st.Close()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if n := s.asking.Load(); n != 0 {
			t.Errorf("%d questions are open when the answer has ended", n)
		}
	})
}

// An agent fails before the market has said that it had accepted: the reader waits for that word, and the
// answer goes on. If the word is that nobody has it, that is the last word.
func TestAnAnswerThatBreaksBeforeAccepted(t *testing.T) {
	for name, word := range map[string]bool{"accepted": true, "refused": false} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.goesOn(func(task *bus.Task) {
					s.token("t", task.Attempt, 2, "c")
					s.ended("t", task.Attempt, 3)
				})
				onward := s.door
				s.door = func(m bus.Msg, task *bus.Task) {
					if task.Resume != nil {
						onward(m, task)
						return
					}
					s.token("t", 0, 0, "a")
					s.token("t", 0, 1, "b")
					s.end("t", 2, bus.CodeEngineFailed)
					time.AfterFunc(20*time.Second, func() {
						if word {
							onward(m, task)
							return
						}
						s.say(m.Reply,
							&bus.Answer{Result: &bus.Result{Client: "ada", Task: "t", Code: bus.CodeUnknown,
								Message: "the hub said nothing"}})
					})
				}
				st, err := s.c.Submit(t.Context(), bus.Task{ID: "t", Body: body})
				if word && err == nil {
					wantRead(t, st, "abc", "")
				} else if word || bus.CodeOf(err) != bus.CodeUnknown {
					t.Errorf("it begins with %v", err)
				}
			})
		})
	}
}

// What an engine's parsers told apart as reasoning and tool calls goes along, beside the text.
func TestWhatParsersSaidGoesAlong(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.goesOn(func(task *bus.Task) {
			s.token("t", task.Attempt, 5, "d")
			s.ended("t", task.Attempt, 6)
		})
		st := s.submit("t")
		for n, delta := range []string{`"reasoning":"let "`, `"reasoning":"me "`,
			`"tool_calls":[{"index":0,"id":"call-0","function":{"name":"f"}}]`,
			`"tool_calls":[{"index":0,"function":{"arguments":"{}"}},{"index":1,"id":"call-1"}]`} {
			s.frame("t", &bus.Chunk{Task: "t", Seq: uint64(n), Tokens: []uint32{uint32(100 + n)}, Count: 1,
				Extra: []bus.Extra{{Choice: []byte(`{"index":0,"delta":{` + delta +
					`},"logprobs":null}`)}}})
		}
		s.token("t", 0, 4, "c")
		s.end("t", 5, bus.CodeEngineFailed)
		wantRead(t, st, "cd", "")
		if r := s.tasks[len(s.tasks)-1].Resume; r == nil || r.Reasoning != "let me " || r.Text != "c" ||
			len(r.Tokens) != 5 || strings.Join(r.Calls, " ") != "call-0 call-1" {
			t.Errorf("it went on from %+v", r)
		}
	})
}

// Tokens of which nothing was shown are nothing that was delivered: the answer begins anew, whatever its
// request says.
func TestAnAnswerOfWhichNothingWasShown(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.goesOn(func(task *bus.Task) {
			s.token("t", task.Attempt, 1, "a")
			s.ended("t", task.Attempt, 2)
		})
		st := s.submitTask(chatBody(`{"messages":[],"response_format":{"type":"json_object"}}`))
		s.token("t", 0, 0, "")
		s.end("t", 1, bus.CodeEngineFailed)
		wantRead(t, st, "a", "")
		if r := s.tasks[len(s.tasks)-1].Resume; r == nil || r.Seq != 1 || len(r.Tokens) > 0 {
			t.Errorf("it began anew as %+v", r)
		}
	})
}

// An answer that cannot go on ends with the first agent's failure and the reason, and nobody is asked.
func TestAnAnswerThatCannotGoOn(t *testing.T) {
	const plain = `{"messages":[{"role":"user","content":"hi"}]}`
	for name, c := range map[string]struct {
		task bus.Task
		say  func(s *scene)
		why  string
	}{
		"a grammar": {chatBody(`{"messages":[],"response_format":{"type":"json_object"}}`),
			func(s *scene) { s.token("t", 0, 0, "a") }, "response_format"},
		"no token ids": {chatBody(plain), func(s *scene) { s.chunk("t", 0, "a") }, "no token ids"},
		"something else has begun": {chatBody(plain), func(s *scene) {
			s.frame("t", &bus.Chunk{Task: "t", Text: "a", Tokens: []uint32{1},
				Extra: []bus.Extra{{Choice: []byte(`{}`)}}})
		}, "more than text"},
		"it is whole": {chatBody(plain), func(s *scene) {
			s.frame("t", &bus.Chunk{Task: "t", Text: "a", Tokens: []uint32{1}, Finish: true})
		}, "whole"},
		"failover off": {bus.Task{ID: "t", Body: []byte(plain), Failover: "off"},
			func(s *scene) { s.token("t", 0, 0, "a") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				st, err := s.c.Submit(t.Context(), c.task)
				if err != nil {
					t.Fatal(err)
				}
				c.say(s)
				s.end("t", 1, bus.CodeEngineFailed)
				wantRead(t, st, "a", bus.CodeEngineFailed)
				if r, _ := st.Result(); !strings.Contains(r.Message, c.why) || len(s.tasks) != 1 {
					t.Errorf("%q, the door got %d tasks; want %q and one", r.Message, len(s.tasks), c.why)
				}
			})
		})
	}
}

// Where the hub refuses, the reader hears both.
func TestNobodyGoesOn(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.nobodyGoesOn(bus.CodeNoRoom, "all slots are taken")
		st := s.submit("t")
		s.token("t", 0, 0, "a")
		s.end("t", 1, bus.CodeAgentFailed)
		wantRead(t, st, "a", bus.CodeAgentFailed)
		if r, _ := st.Result(); !strings.Contains(r.Message, "all slots are taken") {
			t.Errorf("%+v", r)
		}
	})
}

// An agent that was started again knows nothing of the answer. Its hub does, and where nobody can go on the
// hub's word is the last.
func TestNobodyGoesOnForAnAgentThatForgot(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.nobodyGoesOn(bus.CodeAgentFailed, "no other agent is there")
		st := s.submit("t")
		s.token("t", 0, 0, "a")
		s.frame("t", &bus.Chunk{Task: "t", Seq: 1,
			Result: &bus.Result{Client: "ada", Task: "t", Agent: "agent", Code: bus.CodeUnknown,
				Message: "no such answer is kept here"}})
		wantRead(t, st, "a", bus.CodeAgentFailed)
	})
}

// A task that was served, paid and acknowledged is asked again under its id: nobody has the text any more,
// and its hub says so.
func TestAServedTaskIsAskedAgain(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.nobodyGoesOn(bus.CodeAnswerGone, "served to its end, and paid")
		s.resumed = func(task string, from uint64) {
			s.frame(task, &bus.Chunk{Task: task, Seq: from,
				Result: &bus.Result{Client: "ada", Task: task, Agent: "agent", Code: bus.CodeUnknown,
					Message: "no such answer is kept here"}})
		}
		st := s.submit("t")
		wantRead(t, st, "", bus.CodeAnswerGone)
		if r, _ := st.Result(); r.Message != "served to its end, and paid" {
			t.Errorf("told %q", r.Message)
		}
	})
}

// A hub moves by itself what has not begun: the reader learns from a heartbeat whom its controls go to.
func TestATaskThatWasMoved(t *testing.T) {
	play(t, func(c *client.Config) { c.AckEvery = 1 }, func(t *testing.T, s *scene) {
		heard := make(chan bus.StreamControl, 10)
		s.hear(bus.StreamSubject("next", "ada"), func(m bus.Msg) {
			var c bus.StreamControl
			if bus.Decode(m.Data, &c) == nil {
				heard <- c
			}
		})
		st := s.submit("t")
		<-time.After(time.Second)
		s.frame("t", &bus.Chunk{Task: "t", Attempt: 1, Heartbeat: true, Agent: "next"})
		s.token("t", 1, 0, "a")
		s.ended("t", 1, 1)
		wantRead(t, st, "a", "")
		if c := <-heard; c.Ack == nil {
			t.Errorf("%+v", c)
		}
	})
}

// An answer that began in time goes on after its deadline: that was for its beginning.
func TestAnAnswerGoesOnAfterItsDeadline(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.goesOn(func(task *bus.Task) {
			s.token("t", task.Attempt, 1, "b")
			s.ended("t", task.Attempt, 2)
		})
		task := chatBody(string(body))
		task.DeadlineMS = time.Now().Add(time.Second).UnixMilli()
		st := s.submitTask(task)
		s.token("t", 0, 0, "a")
		time.AfterFunc(2*time.Second, func() { s.end("t", 1, bus.CodeEngineFailed) })
		wantRead(t, st, "ab", "")
		if again := s.tasks[1]; again.DeadlineMS != 0 {
			t.Errorf("sent again with a deadline that is over: %d", again.DeadlineMS)
		}
	})
}
