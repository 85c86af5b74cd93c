package fire

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Pages of a market that is well, and for each alert what is otherwise where it is to fire. @ stands for
// the number of the scrape: a counter that grows.
const well = `
souk_hub_leading{hub="math"} 1
souk_treasury_leading 1
souk_ready 1
souk_connected{to="nats"} 1
souk_hub_faults_total{hub="math"} 0
souk_checkpoint_contradicted{journal="math"} 0
souk_checkpoint_uncosigned_seconds{journal="math"} 2
souk_journal_disk_free_bytes{journal="math"} 9e9
souk_journal_disk_needed_bytes{journal="math"} 1e8
souk_journal_sync_seconds_bucket{journal="math",le="0.25"} @
souk_journal_sync_seconds_bucket{journal="math",le="0.5"} @
souk_journal_sync_seconds_bucket{journal="math",le="+Inf"} @
souk_treasury_closed 0
souk_credentials_expire_seconds{of="creds"} 7e6
souk_agentd_state{agent="a",model="m",state="ready"} 1
souk_agentd_claimed{agent="a",model="m"} 1
souk_gateway_answers_total{code="ok"} @
souk_gateway_answers_total{code="engine_failed"} 0
souk_gateway_answers_total{code="bad_request"} @
souk_hub_slots{hub="math",model="m",state="free"} 4
souk_hub_slots{hub="math",model="m",state="held"} 4
souk_hub_open_tasks{hub="math",state="waiting"} 0
souk_hub_wait_seconds_bucket{hub="math",le="10"} @
souk_hub_wait_seconds_bucket{hub="math",le="30"} @
souk_hub_wait_seconds_bucket{hub="math",le="+Inf"} @
souk_hub_agents{hub="math",model="m",state="open"} 1
souk_hub_rounds_total{hub="math"} @
souk_hub_rounds_stopped_total{hub="math"} 0
souk_agentd_unpaid_total{agent="a",model="m",why="late"} 0
souk_agentd_usage_differs_total{agent="a",model="m"} 0
souk_infra_nats_slow_consumers_total 0
souk_infra_etcd_db_bytes 1e6
souk_infra_etcd_quota_bytes 2e9
souk_gateway_memory_bytes 1e6
souk_gateway_memory_limit_bytes 5e8
souk_hub_policies_off{hub="math"} 0
souk_agentd_policies_off 0
`

// standby is the page of a hub that stands by in that market, as a process of its own.
const standby = `
souk_hub_leading{hub="math"} 0
souk_ready 0
souk_connected{to="nats"} 1
`

// losses are the alerts of a part that is lost.
var losses = []string{"SoukGone", "SoukHubNotLed", "SoukTreasuryNotLed", "SoukEngineDown", "SoukDisconnected"}

// gone is the ill of a market whose standby is not there.
const gone = "gone"

// ills has for each alert the lines that take the place of those of the same name and labels; a line that
// begins with ! goes.
var ills = map[string]string{
	"SoukHubNotLed":      `!souk_hub_leading{hub="math"}`,
	"SoukTreasuryNotLed": "souk_treasury_leading 0",
	"SoukNotReady":       "souk_ready 0",
	"SoukGone":           gone,
	"SoukDisconnected":   `souk_connected{to="nats"} 0`,
	"SoukFault":          `souk_hub_faults_total{hub="math"} @`,
	"SoukContradiction":  `souk_checkpoint_contradicted{journal="math"} 1`,
	"SoukUncosigned":     `souk_checkpoint_uncosigned_seconds{journal="math"} 90`,
	"SoukDiskLow":        `souk_journal_disk_free_bytes{journal="math"} 15e7`,
	"SoukSyncSlow":       `souk_journal_sync_seconds_bucket{journal="math",le="0.25"} 0`,
	"SoukTreasuryClosed": "souk_treasury_closed 1",
	"SoukCredentialsEnd": `souk_credentials_expire_seconds{of="creds"} 1e6`,
	"SoukEngineDown": "!souk_agentd_state{agent=\"a\",model=\"m\",state=\"ready\"}\n" +
		`souk_agentd_state{agent="a",model="m",state="unhealthy"} 1`,
	"SoukAgentUnsold": `souk_agentd_claimed{agent="a",model="m"} 0`,
	"SoukAnswersFail": `souk_gateway_answers_total{code="engine_failed"} @`,
	"SoukCrowded": "souk_hub_slots{hub=\"math\",model=\"m\",state=\"free\"} 0\n" +
		"souk_hub_open_tasks{hub=\"math\",state=\"waiting\"} 9\n" +
		`souk_hub_wait_seconds_bucket{hub="math",le="10"} 0`,
	"SoukNoAgents": "!souk_hub_agents{hub=\"math\",model=\"m\",state=\"open\"}\n" +
		`souk_hub_agents{hub="math",model="m",state="silent"} 1`,
	"SoukSolvesStopped": `souk_hub_rounds_stopped_total{hub="math"} @`,
	"SoukUnpaid":        `souk_agentd_unpaid_total{agent="a",model="m",why="late"} @`,
	"SoukUsageDiffers":  `souk_agentd_usage_differs_total{agent="a",model="m"} @`,
	"SoukNATSSlow":      "souk_infra_nats_slow_consumers_total @",
	"SoukEtcdFull":      "souk_infra_etcd_db_bytes 19e8",
	"SoukGatewayFull":   "souk_gateway_memory_bytes 49e7",
	"SoukPolicyOff":     "souk_agentd_policies_off 1",
}

// page returns one with ills, at a scrape.
func page(ill string, scrape int) []byte {
	lines := map[string]string{}
	for line := range strings.Lines(well + ill) {
		line = strings.TrimSpace(line)
		series, value, ok := strings.Cut(line, "} ")
		if !ok {
			series, value, _ = strings.Cut(line, " ")
		} else {
			series += "}"
		}
		switch {
		case line == "":
		case strings.HasPrefix(line, "!"):
			delete(lines, line[1:])
		default:
			lines[series] = value
		}
	}
	var out bytes.Buffer
	for _, series := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&out, "%s %s\n", series, strings.ReplaceAll(lines[series], "@", fmt.Sprint(scrape*50)))
	}
	return out.Bytes()
}

// Where all is well no alert fires. Each fires where it is to, alone, and falls silent once that is over.
func TestEachAlertFiresAndFallsSilent(t *testing.T) {
	p := open(t)
	for name := range p.alerts {
		if ills[name] == "" {
			t.Errorf("no ill makes %s fire", name)
		}
	}
	scrape := 0
	play := func(ill string, most int, until func([]string) bool) []string {
		var now []string
		for range most {
			if ill == gone {
				p.take("a", page("", scrape))
				p.up("b", 0)
			} else {
				p.take("a", page(ill, scrape))
				p.take("b", []byte(standby))
			}
			scrape++
			p.evaluate()
			if now = p.firing(); until(now) {
				break
			}
		}
		return now
	}
	if now := play("", 60, func(now []string) bool { return len(now) > 0 }); len(now) > 0 {
		t.Fatalf("in a market that is well: %v", now)
	}
	for _, name := range slices.Sorted(maps.Keys(ills)) {
		if p.alerts[name] == nil {
			t.Errorf("there is no alert %s", name)
			continue
		}
		begun := scrape
		now := play(ills[name], 60, func(now []string) bool { return len(now) > 0 })
		if !slices.Equal(now, []string{name}) {
			t.Errorf("%s: %v fire", name, now)
		}
		// the first scrape comes a step after the ill at most, and so does the first evaluation after that
		took := time.Duration(2+scrape-begun-1) * step
		if took > 30*time.Second && slices.Contains(losses, name) {
			t.Errorf("%s fires up to %v after a part is gone, want 30 s at most", name, took)
		}
		if now := play("", 400, func(now []string) bool { return len(now) == 0 }); len(now) > 0 {
			t.Errorf("%s: when it is over %v fire", name, now)
		}
	}
}
