//go:build !race

package exchange_test

// every is how far apart the rows of the large tables are that run.
const every = 1
