package top

import "strings"

// column is one of a grid. Of a narrow grid those with the lowest worth go first.
type column struct {
	title string
	worth int
	right bool // numbers stand at the right
}

// none stands in a cell of which nothing is known.
const none = "–"

// grid is rows of cells under their titles.
type grid struct {
	columns []column
	cells   [][]word
}

func (g *grid) add(cells ...word) { g.cells = append(g.cells, cells) }

// rows are the grid's lines. Columns of which nothing is known are left out, and those for which there is no room.
func (g *grid) rows(width int) (out []row) {
	widths := g.widths()
	for total(widths) > width {
		least := -1
		for i, c := range g.columns {
			if i > 0 && widths[i] > 0 && (least < 0 || c.worth <= g.columns[least].worth) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		widths[least] = 0
	}
	titles := make([]word, len(g.columns))
	for i, c := range g.columns {
		titles[i] = word{c.title, soft}
	}
	out = make([]row, 0, 1+len(g.cells))
	for _, cells := range append([][]word{titles}, g.cells...) {
		r := make(row, 0, 3*len(cells))
		for i, w := range cells {
			if widths[i] == 0 {
				continue
			}
			pad := strings.Repeat(" ", widths[i]-row{w}.width())
			if len(r) > 0 {
				r = append(r, word{"  ", plain})
			}
			if g.columns[i].right {
				r = append(r, word{pad, plain}, w)
			} else {
				r = append(r, w, word{pad, plain})
			}
		}
		out = append(out, r)
	}
	return out
}

// widths are those of the columns; 0: nothing is known in it.
func (g *grid) widths() []int {
	widths := make([]int, len(g.columns))
	for _, cells := range g.cells {
		for i, w := range cells {
			if w.text != none && w.text != "" {
				widths[i] = max(widths[i], row{w}.width(), len(g.columns[i].title))
			}
		}
	}
	return widths
}

// total is the width of a grid, with two blanks between columns.
func total(widths []int) (n int) {
	for _, w := range widths {
		if w > 0 {
			n += w + 2
		}
	}
	return n - 2
}
