package bus

// Share bounds how much of a NATS server one name may use, over all its connections. Subscriptions and
// Payload stand in its creds, and so hold on any server; our own server (bus/embedded) counts the others, and
// closes connections that exceed them. 0 is no bound: processes that answer everybody use as much as these
// ask.
type Share struct {
	Subscriptions int // of a connection
	Payload       int // bytes of a message, with its headers

	Connections int // at once: a message that all their subscriptions hear is sent as often
	Pending     int // bytes that wait at the server until they are read, of all connections

	Says, Hears Traffic // what goes out from it, and what comes to it
}

// Traffic bounds what a name publishes a second, as an average over [TrafficOver] seconds: whoever exceeds it
// is kept away for a minute.
type Traffic struct{ Messages, Bytes int }

// TrafficOver is the number of seconds over which traffic is averaged.
const TrafficOver = 2

// MaxPending is the most that a server keeps for one connection that does not read, whoever it is: a hub that
// was stopped for some seconds, or a gateway with a thousand streams whose machine stands still, finds it all
// when it goes on.
const MaxPending = 32 << 20

// ShareOf returns the share of a role's process. agents is how many of them an agentd speaks for; an unknown
// role has the largest share.
func ShareOf(role Role, agents int) Share {
	// The parts of the market have one subscription for each kind of what they hear, and one connection for
	// each process; a name may have several processes, of which one stands by.
	s := Share{Subscriptions: 128, Payload: MaxMessage, Connections: 16, Pending: MaxPending}
	switch role {
	case RoleClient:
		// bus/client needs three subscriptions, other clients one for each answer that they wait for. Each
		// answer costs the server once for each subscription that hears it, so all together they are few. A
		// request is a body and its headers. A thousand streams, the most that a door has of one client, say
		// fifty times a second what is new, and are acknowledged some times a second.
		s.Subscriptions, s.Connections = 16, 8
		s.Payload, s.Pending = MaxBody+64<<10, 16<<20
		s.Says, s.Hears = Traffic{5000, 32 << 20}, Traffic{100_000, 64 << 20}
	case RoleViewer:
		s.Subscriptions, s.Connections = 16, 8
		s.Payload, s.Pending = 64<<10, 8<<20
		s.Says, s.Hears = Traffic{2000, 1 << 20}, Traffic{50_000, 32 << 20}
	case RoleOperator:
		// each of its commands is a connection, and scripts run many at once
		s.Subscriptions, s.Connections = 16, 64
		s.Payload, s.Pending = 64<<10, 16<<20
		s.Says, s.Hears = Traffic{10_000, 32 << 20}, Traffic{50_000, 32 << 20}
	case RoleAgentd:
		// four subscriptions for each agent; an agent sends its streams, and a summary a second
		s.Subscriptions += 8 * agents
		s.Connections = 8
		s.Says = Traffic{20_000 + 1000*agents, (64 + 8*agents) << 20}
		s.Hears = s.Says
	case "":
		s.Connections = 64
	}
	return s
}
