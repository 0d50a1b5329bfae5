package daemon

// What the tests of package daemon_test must see.
var (
	NewLogger = newLogger
	Explain   = explain
	HealthDir = healthDir
)
