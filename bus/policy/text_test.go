package policy

import (
	"reflect"
	"testing"
	"time"

	"souk/market"
)

// What policies are told and what they say has no room for text or money: numbers alone, whatever prompts and
// answers hold and whatever is bid. Names of agents, clients, roles and tools are hashes.
func TestPoliciesSeeNoTextAndNoBid(t *testing.T) {
	var look func(of reflect.Type, path string)
	look = func(of reflect.Type, path string) {
		if of == reflect.TypeFor[market.Credits]() {
			t.Errorf("%s is money", path)
		}
		switch of.Kind() {
		case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint64,
			reflect.Float64:
		case reflect.Struct:
			for i := range of.NumField() {
				if f := of.Field(i); f.Type != reflect.TypeFor[time.Time]() {
					look(f.Type, path+"."+f.Name)
				}
			}
		default:
			t.Errorf("%s is a %v, which may hold text", path, of)
		}
	}
	for _, of := range []any{Event{}, Item{}, Effect{}} {
		look(reflect.TypeOf(of), reflect.TypeOf(of).Name())
	}
}
