package enginetest

// UseLiveRestore makes the next Start do so: a second engine for a test of both ways would take its time to load.
func (p *PrivateEngine) UseLiveRestore() { LiveRestore(&p.o) }
