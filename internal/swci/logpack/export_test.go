package logpack

// Redact is redact, for tests.
var Redact = redact
