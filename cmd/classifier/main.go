// Command classifier is the door of the market.
package main

import "souk/cmd/daemon"

func main() { daemon.Main(daemon.Command(role())) }
