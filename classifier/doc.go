// Package classifier is the door of the market: it takes each task from its client, names the task's domain, chooses a
// hub, and sees to it that the client gets one truthful answer.
//
// Everything that decides is values in, values out: Text reads what names a domain, Table holds what hubs publish, Choose
// picks one. Server joins them to the bus and the clock.
package classifier
