package virtual

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"souk/market"
)

// errNoFile tells [FleetNamed] that a name was misspelt.
var errNoFile = errors.New("no file")

// fleetFile is a fleet as a file has it. Prices are credits a million tokens, as in an agent's configuration.
type fleetFile struct {
	About   string `json:"about"`
	Engines []struct {
		Name     string    `json:"name"`
		Count    *int      `json:"count"` // so many of them, numbered from 1
		Model    string    `json:"model"`
		Profile  string    `json:"profile"`
		Slots    int       `json:"slots"`
		Blocks   int       `json:"blocks"`
		Context  int       `json:"context"`
		Score    float64   `json:"score"`
		Recorded string    `json:"recorded"`
		Card     *cardFile `json:"card"`
	} `json:"engines"`
}

type cardFile struct {
	Miss float64  `json:"miss"`
	Hit  *float64 `json:"hit"` // none: a tenth of miss
	Out  float64  `json:"out"`
}

// largestFleetFile is more than mostEngines with long names need.
const largestFleetFile = 4 << 20

// ReadFleet reads a fleet from a JSON file:
//
//	{"engines": [{"name": "small", "count": 4, "model": "llama-3.1-8b",
//	  "profile": "rtxpro6000-llama-3.1-8b", "slots": 8, "score": 0.62,
//	  "card": {"miss": 0.02, "hit": 0.002, "out": 0.05}}]}
//
// What is wrong is said with the file and the field, or the line.
func ReadFleet(file string) (Fleet, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Fleet{}, errNoFile
	}
	if err != nil {
		return Fleet{}, err
	}
	if info.IsDir() || info.Size() > largestFleetFile {
		return Fleet{}, fmt.Errorf("%s: no fleet: a file of at most %d bytes is one", file, largestFleetFile)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Fleet{}, err
	}
	f, err := parseFleet(data)
	if err != nil {
		return Fleet{}, fmt.Errorf("%s: %w", file, err)
	}
	f.Name = strings.TrimSuffix(filepath.Base(file), ".json")
	return f, nil
}

func parseFleet(data []byte) (f Fleet, err error) {
	var in fleetFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return f, atLine(data, d.InputOffset(), err)
	}
	if d.More() {
		return f, atLine(data, d.InputOffset(), errors.New("something follows the fleet"))
	}
	f.About = in.About
	for i, e := range in.Engines {
		field := func(name string, err error) error { return fmt.Errorf("engines[%d].%s: %w", i, name, err) }
		if e.Card == nil {
			return f, field("card", errors.New("it has none: {\"miss\": 0.02, \"out\": 0.05}, credits a million tokens"))
		}
		price := market.Price{}
		hit := e.Card.Miss / 10
		if e.Card.Hit != nil {
			hit = *e.Card.Hit
		}
		for _, p := range []struct {
			name string
			of   float64
			to   *market.Credits
		}{{"miss", e.Card.Miss, &price.Miss}, {"hit", hit, &price.Hit}, {"out", e.Card.Out, &price.Out}} {
			if !(p.of >= 0 && p.of <= float64(market.MaxWorth)/float64(market.Credit)) {
				return f, field("card."+p.name, fmt.Errorf("%v is no price", p.of))
			}
			*p.to = market.Credits(math.Round(p.of * float64(market.Credit)))
		}
		one := FleetEngine{Name: e.Name, Model: e.Model, Profile: e.Profile, Slots: e.Slots, Blocks: e.Blocks,
			Card: price, Score: e.Score, Context: e.Context, Recorded: e.Recorded}
		switch {
		case e.Count == nil:
			f.Engines = append(f.Engines, one)
		case *e.Count < 1 || *e.Count > mostEngines:
			return f, field("count", fmt.Errorf("%d is not from 1 to %d", *e.Count, mostEngines))
		case e.Name == "":
			return f, field("name", errors.New("it has none"))
		default:
			f.Engines = append(f.Engines, several(*e.Count, one)...)
		}
		if len(f.Engines) > mostEngines {
			return f, field("count", fmt.Errorf("that makes more than %d engines", mostEngines))
		}
	}
	return f, f.Validate()
}

// atLine says on which line of a file an error is.
func atLine(data []byte, offset int64, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
		err = fmt.Errorf("%s: %s is not a %s", kind.Field, kind.Value, kind.Type)
	}
	line := 1 + bytes.Count(data[:min(int(max(0, offset)), len(data))], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, err)
}
