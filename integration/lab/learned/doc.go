// Package learned has routers that learn from recorded answers which model answers a question best:
// RouteLLM's matrix factorisation, GraphRouter, GMTRouter and RouterDC, each small enough to be trained in
// a minute on a processor, from rows that lie beside it. They choose a model by the question alone and
// know nothing of load.
//
// Every question belongs to one of [Folds] parts by a hash of its text, and is only ever answered by weights
// that were learned from the other parts.
package learned
