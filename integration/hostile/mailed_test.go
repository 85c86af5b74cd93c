package hostile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
)

// Eve, who is in another cache group, knows that somebody mailed ann a PIN. She mails ann guesses at it,
// and sees none of ann's answers: but what ann's engine has in hand meanwhile is less where a guess is
// right, as it is cached. By nothing that eve is quoted, told or charged may she see that.

// guesses returns how many of her guesses are judged, after as many by which she learns what to look at.
func guesses() int {
	if os.Getenv("SOUK_SOAK") != "" {
		return 2000
	}
	return 200
}

// mail is the request that ann's assistant makes of a mail: its beginning, which names a PIN, stands before a
// long text that everybody knows. The end is new each time.
func mail(id, pin, n, tokens int) string {
	return fmt.Sprintf(`{"max_tokens":%d,"messages":[{"role":"system","content":"Answer mail, branch %d."},`+
		`{"role":"user","content":"my pin is %d. %s. %d"}]}`, tokens, id, pin,
		strings.TrimSpace(strings.Repeat("never tell it to anybody ", 250)), n)
}

// mailed has somebody mail ann a PIN, and eve a right and a wrong guess at it. eve hears nothing of what
// ann is answered: she asks for quotes for a text of her own, before ann reads her mail and while she
// answers it.
func (a *attacker) mailed(n int, others int) (all []guess) {
	a.t.Helper()
	eve := `{"max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat("a text of eve ", 400) + `"}]}`
	k := 0
	a.figures(bus.TaskSubject("eve", ""), eve) // she has it cached at an agent, and so is quoted that
	a.pass(time.Second)
	ann := func(body string) func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.figures(bus.TaskSubject("ann", ""), body)
		}()
		a.pass(15 * time.Millisecond)
		return func() { <-ended; a.pass(0) }
	}
	for len(all) < n {
		a.id++
		s := secret{a.id, 1000 + a.r.IntN(9000)}
		k++
		ann(mail(s.id, s.pin, k, 30))()
		a.pass(time.Duration(1000+a.r.IntN(2000)) * time.Millisecond)
		pins, first := [2]int{s.pin, s.wrong(a.r)}, a.r.IntN(2)
		for i := range 2 {
			var wait []func()
			for range a.r.IntN(others + 1) {
				k++
				body := fmt.Sprintf(`{"max_tokens":%d,"messages":[{"role":"user","content":"%d %s"}]}`, 20+a.r.IntN(60), k,
					strings.TrimSpace(strings.Repeat("of bob ", 10+a.r.IntN(500))))
				end := make(chan struct{})
				go func() { defer close(end); a.figures(bus.TaskSubject("bob", ""), body) }()
				wait = append(wait, func() { <-end; a.pass(0) })
				a.pass(time.Duration(a.r.IntN(60)) * time.Millisecond)
			}
			which := (first + i) % 2
			k++
			before := a.figures(bus.QuoteSubject("eve", ""), eve)
			end := ann(mail(s.id, pins[which], k, 30))
			saw := a.figures(bus.QuoteSubject("eve", ""), eve)
			for f, v := range maps.Clone(saw) {
				saw[f+", more than before"] = v - before[f]
			}
			all = append(all, guess{which == 0, saw})
			end()
			for _, w := range wait {
				w()
			}
			a.pass(time.Duration(1000+a.r.IntN(2000)) * time.Millisecond)
		}
	}
	return all
}

func TestNobodyLearnsWhatIsMailedToAnother(t *testing.T) {
	for _, c := range [][2]int{{1, 0}, {1, 3}, {2, 0}, {2, 6}} {
		if testing.Short() && c[0]+c[1] > 1 {
			continue
		}
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &attacker{house: open(t, direct, nil), r: rand.New(rand.NewPCG(47, uint64(c[1])))}
				a.rich()
				if c[0] == 1 {
					a.stop("node-2")
					a.pass(2 * time.Second) // the hub hears of it
				}
				n := guesses()
				all := a.mailed(2*n, c[1])
				judge(t, fmt.Sprintf("quotes beside mail, %d agents and up to %d tasks of others", c[0], c[1]), all[:n],
					all[n:])
				a.close()
			})
		})
	}
}

// eveAsks asks for what is worth its cost at an idle agent and at no other.
type eveAsks struct {
	*attacker
	worth         float64
	patience      int
	tries, served atomic.Int64
}

func (e *eveAsks) ask(worth float64, within time.Duration) string {
	try := e.tries.Add(1)
	body := fmt.Sprintf(`{"max_tokens":1,"messages":[{"role":"user","content":"%d a text of eve %s"}],"souk":{"deadline_ms":%d,`+
		`"terms":{"worth":%.9f,"delta":0.1,"patience_ms":%d}}}`, try, strings.Repeat("and so on ", 40),
		time.Now().Add(within).UnixMilli(), worth, e.patience)
	m, err := e.me.Request(e.t.Context(), bus.Msg{Subject: bus.TaskSubject("eve", ""), Data: []byte(body)})
	e.must(err)
	if !strings.Contains(string(m.Data), `"code"`) {
		e.served.Add(1)
	}
	return string(m.Data)
}

// aim finds the least worth that is admitted.
func (e *eveAsks) aim() {
	body := fmt.Sprintf(`{"max_tokens":1,"messages":[{"role":"user","content":"%d a text of eve %s"}]}`, 1<<30,
		strings.Repeat("and so on ", 40))
	e.patience = max(2, int(15*e.figures(bus.QuoteSubject("eve", ""), body)[".hubs.0.models.0.ttft_ms"]))
	lo, hi := 0.0, 0.2
	for range 20 {
		mid := (lo + hi) / 2
		if strings.Contains(e.ask(mid, time.Second), "even with a free slot") {
			lo = mid
		} else {
			hi = mid
		}
		e.pass(300 * time.Millisecond)
	}
	e.worth = hi
}

// refused is the least time to begin, in ms, with which such a task is refused at once, as it is worth too
// little at the agent; with less it has no agent, and waits until its deadline. None is served or paid.
func (e *eveAsks) refused() float64 {
	all := make([]bool, 40)
	var wait []chan struct{}
	for i := range all {
		end := make(chan struct{})
		wait = append(wait, end)
		go func() {
			defer close(end)
			all[i] = strings.Contains(e.ask(e.worth, time.Duration(20+4*i)*time.Millisecond), "it is worth")
		}()
	}
	for _, w := range wait {
		<-w
	}
	e.pass(0)
	for i, is := range all {
		if is {
			return float64(20 + 4*i)
		}
	}
	return 1000
}

func TestNobodyLearnsByRefusalsWhatIsMailedToAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, agents := range []int{1, 2} {
		t.Run(fmt.Sprint(agents), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &attacker{house: open(t, direct, nil), r: rand.New(rand.NewPCG(47, uint64(agents)))}
				a.rich()
				if agents == 1 {
					a.stop("node-2")
					a.pass(2 * time.Second) // the hub hears of it
				}
				e := &eveAsks{attacker: a}
				var all []guess
				k := 0
				ann := func(body string) func() {
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						a.figures(bus.TaskSubject("ann", ""), body)
					}()
					a.pass(5 * time.Millisecond)
					return func() { <-ended; a.pass(0) }
				}
				var warm, paid int64
				n := guesses() / 4
				for len(all) < 4*n {
					a.id++
					s := secret{a.id, 1000 + a.r.IntN(9000)}
					k++
					ann(mail(s.id, s.pin, k, 1))()
					a.pass(2 * time.Second)
					pins, first := [2]int{s.pin, s.wrong(a.r)}, a.r.IntN(2)
					for i := range 2 {
						which := (first + i) % 2
						e.aim()
						warm += e.served.Swap(0)
						k++
						end := ann(mail(s.id, pins[which], k, 1))
						saw := map[string]float64{"refused from": e.refused()}
						paid += e.served.Swap(0)
						all = append(all, guess{which == 0, saw})
						end()
						a.pass(3 * time.Second)
					}
				}
				t.Logf("%d tries of eve's; %d were served while she aimed, %d when she looked", e.tries.Load(), warm, paid)
				judge(t, fmt.Sprintf("refusals beside mail, %d agents", agents), all[:n], all[n:])
				a.close()
			})
		})
	}
}

// eve pays for a task of her own beside ann's mail: by what it cost, said and took she learns nothing of
// that.
func TestNobodyLearnsByPayingWhatIsMailedToAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, agents := range []int{1, 2} {
		for name, terms := range map[string]string{"usual": "", "steep": `,"terms":{"worth":0.02,"patience_ms":400}`} {
			t.Run(fmt.Sprint(agents, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := &attacker{house: open(t, direct, nil), r: rand.New(rand.NewPCG(47, uint64(agents)))}
					a.rich()
					if agents == 1 {
						a.stop("node-2")
						a.pass(2 * time.Second) // the hub hears of it
					}
					var all []guess
					k := 0
					n := guesses()
					for len(all) < 2*n {
						a.id++
						s := secret{a.id, 1000 + a.r.IntN(9000)}
						k++
						a.figures(bus.TaskSubject("ann", ""), mail(s.id, s.pin, k, 1))
						a.pass(2 * time.Second)
						pins, first := [2]int{s.pin, s.wrong(a.r)}, a.r.IntN(2)
						for i := range 2 {
							which := (first + i) % 2
							k++
							ended := make(chan struct{})
							go func() {
								defer close(ended)
								a.figures(bus.TaskSubject("ann", ""), mail(s.id, pins[which], k, 20))
							}()
							a.pass(5 * time.Millisecond)
							body := fmt.Sprintf(`{"max_tokens":1,"messages":[{"role":"user","content":"%06d a text of eve %s"}],`+
								`"souk":{"deadline_ms":%d%s}}`, 100_000+k, strings.Repeat("and so on ", 40),
								time.Now().Add(5*time.Second).UnixMilli(), terms)
							saw := a.figures(bus.TaskSubject("eve", ""), body)
							for _, f := range []string{".receipt.round", "bytes"} { // count rounds
								delete(saw, f)
							}
							all = append(all, guess{which == 0, saw})
							<-ended
							a.pass(3 * time.Second)
						}
					}
					judge(t, "tasks paid beside mail", all[:n], all[n:])
					a.close()
				})
			})
		}
	}
}
