// Command classifier is the door of the market.
package main

import "souk/cmd/daemon"

// version is set by the linker; see the Makefile.
var version = ""

func main() { daemon.Main(daemon.Command(role())) }
