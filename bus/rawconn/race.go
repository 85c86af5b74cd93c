//go:build race

package rawconn

const raced = true
