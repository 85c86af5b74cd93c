package bus

// SessionEnd is a client's word that a session has had its last turn: runtime policies expect none, and have
// nothing kept for it. It changes nothing that was sold. Saying it twice, or of a session that nobody knows,
// is no error. A later turn of the session is to them the first of a new one.
//
// To a door it is a request, on [EndSubject]; a door passes it on to every hub, on [HubEndSubject]. With a
// task it is said by [Task.SessionEnd].
type SessionEnd struct {
	// said by a door alone; else the sender
	Client  string `json:"client,omitempty" msgpack:"client,omitempty" want:"id?"`
	Session string `json:"session" msgpack:"session" want:"id"`
}

// SessionEnded is a door's answer to a SessionEnd.
type SessionEnded struct {
	Session string `json:"session,omitempty" msgpack:"session,omitempty" want:"id?"`
	Hubs    int    `json:"hubs" msgpack:"hubs"` // that were told
	Code    Code   `json:"code,omitempty" msgpack:"code,omitempty"`
	Message string `json:"message,omitempty" msgpack:"message,omitempty" want:"text"`
}
