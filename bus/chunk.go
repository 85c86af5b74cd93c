package bus

import "github.com/vmihailenco/msgpack/v5"

// EncodeMsgpack writes a chunk as its tags say, without reflection: it is the message of which there are most,
// one for each token, and msgpack allocates for every field that may be left out.
func (c *Chunk) EncodeMsgpack(e *msgpack.Encoder) error {
	n := 2
	for _, set := range [...]bool{c.Attempt != 0, c.Text != "", len(c.Tokens) > 0, c.Count != 0, len(c.Extra) > 0, c.Finish, c.Heartbeat, c.Agent != "", c.Result != nil} {
		if set {
			n++
		}
	}
	// The encoder writes into memory, so an error would not come from here alone: the first is enough.
	if err := e.EncodeMapLen(n); err != nil {
		return err
	}
	e.EncodeString("t")
	e.EncodeString(c.Task)
	if c.Attempt != 0 {
		e.EncodeString("a")
		e.EncodeInt(int64(c.Attempt))
	}
	e.EncodeString("n")
	err := e.EncodeUint(c.Seq)
	if c.Text != "" {
		e.EncodeString("x")
		err = e.EncodeString(c.Text)
	}
	if len(c.Tokens) > 0 {
		e.EncodeString("k")
		e.EncodeArrayLen(len(c.Tokens))
		for _, id := range c.Tokens {
			err = e.EncodeUint(uint64(id))
		}
	}
	if c.Count != 0 {
		e.EncodeString("c")
		err = e.EncodeInt(int64(c.Count))
	}
	if len(c.Extra) > 0 {
		e.EncodeString("e")
		err = e.Encode(c.Extra)
	}
	if c.Finish && err == nil {
		e.EncodeString("f")
		err = e.EncodeBool(true)
	}
	if c.Heartbeat && err == nil {
		e.EncodeString("h")
		err = e.EncodeBool(true)
	}
	if c.Agent != "" && err == nil {
		e.EncodeString("g")
		err = e.EncodeString(c.Agent)
	}
	if c.Result != nil && err == nil {
		e.EncodeString("r")
		err = e.Encode(c.Result)
	}
	return err
}
