package gateway_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"souk/bus"
	"souk/bus/gateway"
)

// A gateway has so many answers open and no more, of all keys: another request is told to come again, and is
// served when one has ended.
func TestAGatewayHasSoManyAnswersOpen(t *testing.T) {
	onStage(t, func(c *gateway.Config) { small(c); c.MaxOpen = 2 }, func(t *testing.T, st *stage) {
		end := make(chan struct{})
		st.will(func(j *job) {
			j.accept()
			<-end
			j.say("x")
			j.end("")
		})
		var all sync.WaitGroup
		for _, key := range []string{st.key, st.other} {
			r := st.request(t.Context(), "/v1/chat/completions", strings.NewReader(large(10, "")))
			r.Header.Set("Authorization", "Bearer "+key)
			all.Go(func() {
				if a, err := st.client.Do(r); err != nil || a.StatusCode != http.StatusOK {
					t.Errorf("%v, %v", a, err)
				} else {
					a.Body.Close()
				}
			})
		}
		synctest.Wait()
		for _, more := range []string{"", `,"stream":true`} {
			if r := st.do("/v1/chat/completions", large(10, more)); r.status != http.StatusTooManyRequests ||
				r.header.Get("Retry-After-Ms") == "" || r.object(t).Error.Souk.Code != string(bus.CodeTooManyTasks) {
				t.Errorf("one more: %d %v %s", r.status, r.header, r.body)
			}
		}
		close(end)
		all.Wait()
		if r := st.do("/v1/chat/completions", large(10, "")); r.status != http.StatusOK {
			t.Errorf("after them: %d %s", r.status, r.body)
		}
	})
}

// A gateway has so many connections and no more: another waits until one is closed.
func TestAGatewayHasSoManyConnections(t *testing.T) {
	onStage(t, func(c *gateway.Config) { small(c); c.MaxConns = 2 }, func(t *testing.T, st *stage) {
		first, second := st.dial(), st.dial()
		defer second.Close()
		synctest.Wait()
		third := st.dial()
		defer third.Close()
		answered := make(chan string, 1)
		go func() {
			io.WriteString(third, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
			line, _ := bufio.NewReader(third).ReadString('\n')
			answered <- line
		}()
		synctest.Wait()
		select {
		case line := <-answered:
			t.Errorf("one more has %q", line)
		default:
		}
		first.Close()
		synctest.Wait()
		select {
		case line := <-answered:
			if !strings.Contains(line, " 200 ") {
				t.Errorf("it has %q", line)
			}
		default:
			t.Error("it still waits")
		}
	})
}
