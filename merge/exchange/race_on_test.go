//go:build race

package exchange_test

// every is how far apart the rows of the large tables are that run: the race detector makes each twenty times as dear, so all
// of them run without it.
const every = 4
