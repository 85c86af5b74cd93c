package local

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"souk/market"
)

// Rows as they were published; origin and licence in PRICES.md.
//
//go:embed prices.jsonl
var priceRows []byte

// PriceRow is a published price of one model at one provider.
type PriceRow struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Prices   struct {
		Input  market.Credits `json:"input_mtok"`
		Cached market.Credits `json:"cache_read_mtok"`
		Output market.Credits `json:"output_mtok"`
	} `json:"prices"`
}

// Card is the row as a price card.
func (r PriceRow) Card() market.Price {
	return market.Price{Miss: r.Prices.Input, Hit: r.Prices.Cached, Out: r.Prices.Output}
}

// PriceRows returns the rows that come with the program.
func PriceRows() ([]PriceRow, error) {
	var rows []PriceRow
	lines := bufio.NewScanner(bytes.NewReader(priceRows))
	for lines.Scan() {
		var r PriceRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("prices.jsonl: line %d: %w", len(rows)+1, err)
		}
		rows = append(rows, r)
	}
	return rows, lines.Err()
}

// Card finds the row "provider/model" and returns its card.
func Card(row string) (market.Price, error) {
	rows, err := PriceRows()
	if err != nil {
		return market.Price{}, err
	}
	var known []string
	for _, r := range rows {
		name := r.Provider + "/" + r.Model
		if name == row {
			return r.Card(), nil
		}
		known = append(known, name)
	}
	return market.Price{}, fmt.Errorf("price row %q: there is none; known are %s", row,
		strings.Join(known, ", "))
}
