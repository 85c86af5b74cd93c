package market

import "encoding/binary"

// AppendCanonical appends the epoch's canonical bytes to b.
func (e *Epoch) AppendCanonical(b []byte) []byte {
	b = append(b, epochVersion)
	b = appendString(b, e.Class)
	b = binary.AppendUvarint(b, e.Number)
	b = append(b, e.Prev[:]...)
	b = appendInts(b, int64(e.Ceiling), int64(e.Winners))
	b = appendCount(b, len(e.Seals))
	for _, s := range e.Seals {
		b = appendString(b, s.Owner)
		b = append(b, s.Seal[:]...)
	}
	b = appendCount(b, len(e.Opened))
	for _, a := range e.Opened {
		b = appendString(b, a.Owner)
		b = binary.AppendVarint(b, int64(a.Amount))
		b = append(b, a.Nonce[:]...)
	}
	return appendStrings(b, e.Lost)
}

// DecodeEpoch reads what [Epoch.AppendCanonical] wrote. It judges only the form. Errors are ErrEncoding.
func DecodeEpoch(data []byte) (Epoch, error) {
	d := decode(data)
	d.Version(epochVersion)
	e := Epoch{Class: d.Text(), Number: d.Uvarint()}
	d.Fill(e.Prev[:])
	e.Ceiling, e.Winners = d.Credits(), d.Int()
	e.Seals = decodeList(d, nil, 33, func(s *Sealed) {
		s.Owner = d.Text()
		d.Fill(s.Seal[:])
	})
	e.Opened = decodeList(d, nil, 18, func(a *Ask) {
		a.Owner, a.Amount = d.Text(), d.Credits()
		d.Fill(a.Nonce[:])
	})
	e.Lost = d.texts()
	return e, d.end("epoch")
}

// AppendCanonical appends the tariff's canonical bytes to b.
func (t *Tariff) AppendCanonical(b []byte) []byte {
	b = append(b, epochVersion)
	b = appendString(b, t.Class)
	b = binary.AppendUvarint(b, t.Epoch)
	b = binary.AppendVarint(b, int64(t.Amount))
	return appendStrings(appendStrings(b, t.Winners), t.Standby)
}

// DecodeTariff reads what [Tariff.AppendCanonical] wrote. It judges only the form. Errors are ErrEncoding.
func DecodeTariff(data []byte) (Tariff, error) {
	d := decode(data)
	d.Version(epochVersion)
	t := Tariff{Class: d.Text(), Epoch: d.Uvarint(), Amount: d.Credits(),
		Winners: d.texts()}
	t.Standby = d.texts()
	return t, d.end("tariff")
}

func (d *decoder) texts() []string { return decodeList(d, nil, 1, func(s *string) { *s = d.Text() }) }

func appendStrings(b []byte, list []string) []byte {
	b = appendCount(b, len(list))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}
