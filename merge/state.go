package merge

// An optimiser's state holds Method.spec.slots values for every float element:
// float64 for float64, float32 for the others; integers and bools have none.
// The state vector is the leaves' states one behind the other; a leaf's state
// is that of its segments in order, each the first slot of all its elements,
// then the second. There is no padding.

// stateUnits returns how many 4-byte units of one slot lie before a byte offset
// of the flat vector, which must not lie within an element.
func (l *Layout) stateUnits(offset int64) int64 {
	i := l.TensorAt(offset)
	t := l.tensors[i]
	n := min(offset-l.offsets[i], t.Elements()*int64(t.DType.Size())) / int64(t.DType.Size())
	return l.units[i] + n*stateUnit(t.DType)
}

// stateUnit is how many 4-byte units one element's state has per slot.
func stateUnit(d DType) int64 {
	switch {
	case d == Float64:
		return 2
	case d.float():
		return 1
	}
	return 0
}

// StateBytes returns the bytes of the optimiser's state beside a model of the
// layout; 0 if the method has none.
func (m *Method) StateBytes(l *Layout) int64 {
	return int64(m.spec.slots) * 4 * l.stateUnits(l.bytes)
}

// StateSpan returns where the state of a leaf in range lies within the state
// vector, in bytes. The spans of the leaves follow each other without gaps.
func (m *Method) StateSpan(l *Layout, leaf int) (offset int64, n int) {
	from := l.LeafOffset(leaf)
	to := from + int64(l.LeafLen(leaf))
	k := int64(m.spec.slots) * 4
	offset = k * l.stateUnits(from)
	return offset, int(k*l.stateUnits(to) - offset)
}
