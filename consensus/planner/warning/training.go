package warning

import "fmt"

// Contributions that are the model merged last, one after the other, until it is said: a learning rate that warms up from 0 or is
// annealed to 0 makes a few.
const (
	unchangedAtFirst = 2 // when nothing has changed before
	unchangedLater   = 5
)

// unchanged finds peers whose program counts batches while its model stays as it is.
func unchanged(f Facts) (found []Warning) {
	for _, t := range f.sessions() {
		least := uint64(unchangedLater)
		switch {
		case t.Changed == 0 && t.Ended:
			least = 1
		case t.Changed == 0:
			least = unchangedAtFirst
		}
		if t.Unchanged < least || t.Counted && t.TotalBatches == 0 {
			continue
		}
		found = append(found, Warning{Reason: Unchanged, Node: t.Node, Text: fmt.Sprintf(
			"no tensor of %s has changed since round %d%s: is this the model that the optimizer trains? Give SwarmCallback the model itself, after it is "+
				"made for the last time, and look at its learning rate and at what is frozen", t.Node, t.UnchangedSince, after(t))})
	}
	return found
}

// after says how much a program trained.
func after(t trained) string {
	if !t.Counted {
		return ""
	}
	return fmt.Sprintf(", though it trained %s", batches(t.TotalBatches))
}

// noData finds peers that have trained nothing and contribute all the same.
func noData(f Facts) (found []Warning) {
	for _, t := range f.sessions() {
		switch {
		case !t.Counted || t.TotalBatches > 0 || t.Changed > 0:
		case t.Ended:
			found = append(found, Warning{Reason: NoData, Node: t.Node, Text: fmt.Sprintf(
				"%s has trained no batch: look whether its data is empty; if it is not, call on_batch_end after each batch", t.Node)})
		case t.Seq > 1:
			found = append(found, Warning{Reason: NoData, Node: t.Node, Text: fmt.Sprintf(
				"%s contributes without having trained a batch: look whether its data is empty", t.Node)})
		}
	}
	return found
}

// hooksUnused finds peers that have trained without a word of it.
func hooksUnused(f Facts) (found []Warning) {
	for _, t := range f.sessions() {
		if t.Ended && t.Counted && t.TotalBatches == 0 && t.Changed > 0 {
			found = append(found, Warning{Reason: HooksUnused, Node: t.Node, Text: fmt.Sprintf(
				"on_batch_end was never called at %s, whose model changed: nothing was merged between begin and end; call it after each batch", t.Node)})
		}
	}
	return found
}

// neverDue finds peers whose training was over before they should have merged.
func neverDue(f Facts) (found []Warning) {
	for _, t := range f.sessions() {
		interval := t.SyncFrequency
		if c := f.Contract.Committed; c != nil && c.NextInterval > 0 {
			interval = c.NextInterval // what programs are told, which is of all peers
		}
		if !t.Ended || !t.Counted || t.Seq > 1 || t.TotalBatches == 0 || t.TotalBatches >= uint64(interval) {
			continue
		}
		found = append(found, Warning{Reason: NeverDue, Node: t.Node, Text: fmt.Sprintf(
			"syncFrequency is %d, the training of %s had %s: nothing was merged between begin and end; give it less, %d say",
			interval, t.Node, batches(t.TotalBatches), max(1, t.TotalBatches/10))})
	}
	return found
}

func batches(n uint64) string {
	if n == 1 {
		return "1 batch"
	}
	return fmt.Sprintf("%d batches", n)
}
