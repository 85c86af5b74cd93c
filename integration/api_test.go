package integration

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/openai"
)

// byHand is a line of the nats command in deploy/api.md: with which inbox, what, on which subject, with which
// text.
var byHand = regexp.MustCompile(`(?m)^    nats --creds F (?:--inbox-prefix _INBOX\.(\w+) )?(\w+) ` +
	`'?([^\s']+)'?(?: '([^']*)')?`)

// Every line of the nats command that the page of the request API shows works as it stands there: requests
// are answered without a refusal of what they say, and what is published a door or hub understands.
func TestTheLinesOfTheAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	page, err := os.ReadFile("../deploy/api.md")
	if err != nil {
		t.Fatal(err)
	}
	m := start(t, one)
	lines := byHand.FindAllStringSubmatch(string(page), -1)
	if all := strings.Count(string(page), "nats --"); len(lines) != all || all < 7 {
		t.Errorf("%d lines are read, and there are %d", len(lines), all)
	}
	said, subjects := map[string]int{}, ""
	for _, l := range lines {
		who, verb, subject, text := cmp.Or(l[1], "dev"), l[2], l[3], l[4]
		role := bus.RoleClient
		if l[1] == "" && slices.Contains(strings.Split(subject, "."), "gw") {
			who = "gw"
		}
		switch who {
		case "operator":
			role = bus.RoleOperator
		case "gw":
			role = bus.RoleGateway
		}
		subjects += subject + "\n"
		nc := rawOf(t, m, role, bus.IDs{Name: who})
		said[verb]++
		switch verb {
		case "request":
			if l[1] == "" {
				t.Errorf("%s: whose inbox is the answer to come to?", subject)
			}
			reply, err := nc.Request(subject, []byte(text), time.Minute)
			if err != nil {
				t.Errorf("%s: %v", subject, err)
				continue
			}
			var r struct {
				Code    bus.Code
				Message string
			}
			if err := json.Unmarshal(reply.Data, &r); err != nil || r.Code != "" {
				t.Errorf("%s: %v: %.300s", subject, err, reply.Data)
			}
		case "pub":
			var v bus.Message = new(bus.Cancel)
			switch {
			case strings.Contains(subject, ".feedback."):
				v = new(bus.Feedback)
			case strings.Contains(subject, ".stream."):
				v = new(bus.StreamControl)
			}
			if err := bus.Decode([]byte(text), v); err != nil {
				t.Errorf("%s: %v", subject, err)
			}
			if err := nc.Publish(subject, []byte(text)); err != nil {
				t.Error(err)
			}
		case "sub":
			if _, err := nc.SubscribeSync(subject); err != nil {
				t.Errorf("%s: %v", subject, err)
			}
		default:
			t.Errorf("nobody knows how to %s", verb)
		}
		if err := nc.Flush(); err != nil {
			t.Error(err)
		}
		if err := nc.LastError(); err != nil {
			t.Errorf("%s %s: %v", verb, subject, err)
		}
		nc.Close() // as the command does: a name has so many connections at once
	}
	for _, role := range []struct { // all that they may say has a line
		role bus.Role
		name string
	}{{bus.RoleClient, "dev"}, {bus.RoleGateway, "gw"}, {bus.RoleOperator, "operator"}} {
		may, err := bus.PermissionsOf(role.role, bus.IDs{Name: role.name})
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range may.Publish {
			if strings.Contains(pattern, ".piece.") {
				continue // pieces of a large body, which nobody writes by hand
			}
			spoken := "(?m)^" + strings.NewReplacer(".", `\.`, "*", `[^.\n]+`).Replace(pattern) + "$"
			if !regexp.MustCompile(spoken).MatchString(subjects) {
				t.Errorf("no line speaks on %s, as a %s may", pattern, role.role)
			}
		}
	}
	if said["request"] < 2 || said["pub"] < 2 || said["sub"] < 2 {
		t.Errorf("lines by what they do: %v", said)
	}
}

// The page names the status of every code that a client over HTTP may be given, and those are the statuses.
func TestTheStatusesOfTheAPI(t *testing.T) {
	text, err := os.ReadFile("../deploy/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "\n| status | `souk.code` |\n")
	page, rest, _ := strings.Cut(page, "\n\n")
	_, codes, _ := strings.Cut(rest, "\n## Codes\n")
	codes, _, _ = strings.Cut(codes, "\n## ")
	quoted := regexp.MustCompile("`([a-z_]+)`")
	given := map[string]bool{}
	for _, row := range strings.Split(page, "\n")[1:] {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		statuses, groups := strings.Split(cells[0], ", "), strings.Split(cells[1], ";")
		if len(statuses) != len(groups) {
			t.Errorf("%s: %d statuses, and %d groups of codes", row, len(statuses), len(groups))
			continue
		}
		for i, group := range groups {
			for _, c := range quoted.FindAllStringSubmatch(group, -1) {
				given[c[1]] = true
				if got := openai.FaultOf(bus.Code(c[1]), 0).Status; strconv.Itoa(got) != statuses[i] {
					t.Errorf("%s is said to be %s, and is %d", c[1], statuses[i], got)
				}
			}
		}
	}
	for _, row := range strings.Split(codes, "\n") {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, c := range quoted.FindAllStringSubmatch(cell, -1) {
			if c[1] != "code" && !given[c[1]] {
				t.Errorf("no status is said of %s", c[1])
			}
		}
	}
	if len(given) < 30 {
		t.Errorf("%d codes are read", len(given))
	}
}
