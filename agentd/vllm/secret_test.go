package vllm

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"souk/agentd"
)

// A server that refuses a key may quote it. The client reads what the server said, and not the node's key;
// nor does the log of whoever waits for such a server.
func TestAKeyThatIsQuotedIsNotPassedOn(t *testing.T) {
	const key = "k-5ecret-of-the-node"
	for name, say := range map[string]func(w http.ResponseWriter, key string){
		"refused": func(w http.ResponseWriter, key string) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s"}}`, key)
		},
		"not in JSON": func(w http.ResponseWriter, key string) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "Incorrect API key provided: %s", key)
		},
		"as an event": func(w http.ResponseWriter, key string) {
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, `data: {"error":{"message":"Incorrect API key provided: `+key+`","code":401}}`+"\n\n")
		},
		"as no event": func(w http.ResponseWriter, key string) {
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, "data: Incorrect API key provided: "+key+"\n\n")
		},
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			say(w, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		})
		e := engineAt(t, s.URL, func(c *agentd.EngineConfig) { c.APIKey = key })
		err := ask(t, e, hello).Err
		if err == nil || strings.Contains(err.Error(), key) ||
			!strings.Contains(err.Error(), "Incorrect API key") {
			t.Errorf("%s: %v", name, err)
		}
		counted := hello
		counted.Count = true
		if err := ask(t, e, counted).Err; err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s, counting: %v", name, err)
		}
		if _, err := e.Info(t.Context()); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s, before it is sold: %v", name, err)
		}
	}
}
