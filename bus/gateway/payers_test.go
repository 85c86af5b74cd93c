package gateway

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"souk/bus/client"
	"souk/bus/membus"
)

// However many clients come and go, each that is in use is one, and those that nobody uses are bounded.
func TestPayers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	r, err := client.NewReader("gateway", membus.New(1).Bus("gateway"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const most = 8
	all := newPayers(most, func(id string) (*client.Client, error) { return r.Client(client.Config{ID: id}) })
	if _, err := all.take("not an id"); err == nil || len(all.all) > 0 {
		t.Errorf("%v, %d are remembered", err, len(all.all))
	}
	used, names := map[string][]*payer{}, 0
	for range 20_000 {
		id := fmt.Sprint("c", rng.IntN(40))
		if has := used[id]; len(has) > 0 && rng.IntN(2) == 0 {
			has[0].leave()
			if used[id] = has[1:]; len(has) == 1 {
				names--
			}
		} else {
			p, err := all.take(id)
			if err != nil {
				t.Fatal(err)
			}
			if len(has) > 0 && has[0].Client != p.Client {
				t.Fatalf("two clients speak for %s", id)
			}
			if used[id] = append(has, p); len(has) == 0 {
				names++
			}
		}
		if n := len(all.all); n > most+names {
			t.Fatalf("%d are remembered, %d are in use", n, names)
		}
	}
}
