// Package classifier is the door of the market: it takes each task from its client, names the task's domain,
// chooses a hub, and sees to it that the client gets one truthful answer.
//
// All of it is values in, values out: Table holds what hubs publish, and its Choose picks one; Desk says who
// may enter and remembers where sessions and ids went; Placing takes one task to a hub, and to the next.
// classifier/serve joins them to the bus and the clock.
package classifier
