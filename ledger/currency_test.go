package ledger

import "testing"

// What a credit is stands in the treasury's first record, and there alone; it is never another.
func TestCurrency(t *testing.T) {
	for _, test := range []struct {
		role, currency string
		ok             bool
	}{
		{RoleTreasury, "USD", true}, {RoleTreasury, "EUR", true}, {RoleTreasury, "", false},
		{RoleTreasury, "usd", false}, {RoleTreasury, "EURO", false}, {RoleTreasury, "U\n$", false},
		{RoleHub, "", true}, {RoleHub, "USD", false},
	} {
		r := NewOpen("j", test.role, "", [16]byte{1})
		r.Open.Currency = test.currency
		f := Frame{Version: FrameVersion, Epoch: 1, Seq: 1, Time: 1, Records: []Record{r}}
		b := NewBook()
		if err := b.ApplyFrame(f); (err == nil) != test.ok {
			t.Errorf("%s, %q: %v", test.role, test.currency, err)
			continue
		}
		if !test.ok {
			continue
		}
		again, err := DecodeFrame(AppendFrame(nil, &f))
		if err != nil || *again.Records[0].Open != *r.Open || b.Journal() != *r.Open {
			t.Errorf("%s, %q came back as %+v, %v", test.role, test.currency, again.Records[0].Open, err)
		}
		r.Open.Currency = "CHF"
		if err := b.Apply(&r); err == nil {
			t.Errorf("%s, %q became another", test.role, test.currency)
		}
	}
}
