package fleet

// Commands are built once for all tests, of both packages.
var Commands = commands
