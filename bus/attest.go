package bus

// Attest carries checkpoints between a treasury and a hub, in the hub's question and in the answer: each is
// the witness of the other's journal. Nothing in it is believed for who says it: notes are signed.
type Attest struct {
	// origin of the journal of who says this
	Of string `json:"of" msgpack:"of"`
	// its last checkpoint, to be cosigned, and the proof that it goes on the one of size Old, hash by hash;
	// empty: there is none that was not cosigned
	Note  []byte `json:"note,omitempty" msgpack:"note,omitempty" want:"answer"`
	Old   int64  `json:"old,omitempty" msgpack:"old,omitempty"`
	Proof []byte `json:"proof,omitempty" msgpack:"proof,omitempty" want:"text"`
	// the last checkpoint of the other's that it has cosigned, with that signature; empty: none, ever
	Held []byte `json:"held,omitempty" msgpack:"held,omitempty" want:"answer"`
	// why it does not cosign
	Why string `json:"why,omitempty" msgpack:"why,omitempty" want:"text"`
}
