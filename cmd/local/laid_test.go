package local

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// read is a market's file.
func readMarket(t *testing.T, text string) (Config, error) {
	t.Helper()
	c := Default()
	err := yaml.UnmarshalWithOptions([]byte(text), &c, yaml.Strict())
	return c, err
}

// What one domain's block says is of that domain alone, whatever it is laid over.
func TestABlockIsOfItsDomainAlone(t *testing.T) {
	c, err := readMarket(t, `
hub: {pricing: tariff, ceiling: 0.01, ceilings: {a: 0.001}}
domains:
  - {name: math, labels: [math, sums], hub: {ceilings: {b: 0.002}, quality: {judges: [x]}}}
  - {name: general, general: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, d := range c.Domains {
			h, err := c.hub(d)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(d.Name, h.Ceilings, h.Labels, h.Quality.Judges)
			if _, ok := h.Ceilings["b"]; ok != (d.Name == "math") {
				t.Errorf("%s has the ceilings %v", d.Name, h.Ceilings)
			}
		}
	}
}

// What a block may not say it does not say, in whatever way it is written.
func TestABlockCannotRenameItsDomain(t *testing.T) {
	for _, hub := range []string{`{labels: [other]}`, `{labels: [math, other]}`, `{labels: [other, sums]}`,
		`{labels: []}`, `{domain: other}`, `{hub: x}`, `{journal: x}`, `{general: true}`} {
		c, err := readMarket(t, `
domains:
  - {name: math, labels: [math, sums], hub: `+hub+`}
  - {name: general, general: true}
`)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := c.hub(c.Domains[0]); err == nil {
			t.Errorf("%s: %+v", hub, h.Labels)
		} else if l := c.Domains[0].Labels; len(l) != 2 || l[0] != "math" || l[1] != "sums" {
			t.Errorf("%s: the domain's labels are %v", hub, l)
		}
	}
}

// A block may stand elsewhere in the file, as any part of one may.
func TestABlockByAnAlias(t *testing.T) {
	c, err := readMarket(t, `
domains:
  - {name: math, labels: [math], hub: &same {fee: 0.001}}
  - {name: general, general: true, hub: *same}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range c.Domains {
		if h, err := c.hub(d); err != nil || h.Fee == 0 {
			t.Errorf("%s: %v, %v", d.Name, h.Fee, err)
		}
	}
}

// A slip in a block is told by its place in the file.
func TestASlipInABlock(t *testing.T) {
	for hub, want := range map[string]string{
		"    hub:\n      prewarm: {every: 1s}\n      fees: 1\n": "[6:7] unknown field",
		"    hub: 7\n": "[4:10]", "    hub: [a]\n": "[4:10]"} {
		c, err := readMarket(t, "domains:\n  - name: general\n    general: true\n"+hub)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.hub(c.Domains[0]); err == nil ||
			!strings.Contains(err.Error(), "domain general: hub: "+want) {
			t.Errorf("%q: %v, want %s", hub, err, want)
		}
	}
}

// What a treasury's own file may say a market's file may, as after a start of the machine on which no hub of
// before runs any more; but not which market's it is.
func TestABlockOfTheTreasury(t *testing.T) {
	c, err := readMarket(t, "treasury: {believe: 103}")
	if err != nil {
		t.Fatal(err)
	}
	if tr, err := c.treasury(); err != nil || tr.Believe != 103 {
		t.Errorf("it is %+v, %v", tr, err)
	}
	for block, want := range map[string]string{"{journal: other}": "leave it out",
		"{beleive: 1}":   "unknown field",
		"{max_hubs: -1}": "max_hubs"} {
		if c, err := readMarket(t, "treasury: "+block); err != nil {
			t.Fatal(err)
		} else if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", block, err, want)
		}
	}
}
