package container

// Abandon leaves a program alone, as a daemon that is killed does.
func (p *Program) Abandon() {
	p.giveUp()
	<-p.done
}
