// Package gpus looks for the smallest mixed fleet that keeps a promise under each rule: first tokens and gaps
// between tokens that come in time, on arrivals of public traces, in virtual time. What it costs an hour is
// what somebody asks for renting its GPUs.
package gpus
