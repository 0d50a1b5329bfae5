package exchange_test

// row reports whether row k of a large table runs; see every.
func row(k int) bool { return k%every == 0 }

// thorough reports whether tests that move much run all of their variants.
const thorough = every == 1
