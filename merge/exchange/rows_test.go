package exchange_test

// row tells whether row k of a large table runs; see every.
func row(k int) bool { return k%every == 0 }

// thorough tells whether tests that move much run all of their variants.
const thorough = every == 1
