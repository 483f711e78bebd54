package screen

// area is the screen's size and its scroll region, and where the cursor is.
type area struct {
	rows, cols  int
	top, bottom int
	tabs        []bool
	cursor      cursor
}

// move moves the cursor to a row, of the region where positions count in it, and a column.
func (a *area) move(y, x int) {
	last := a.rows - 1
	if a.cursor.origin {
		y, last = y+a.top, a.bottom
	}
	a.cursor.y = min(max(y, 0), last)
	a.column(x)
}

func (a *area) column(x int) {
	a.cursor.x, a.cursor.wrap = min(max(x, 0), a.cols-1), false
}

func (a *area) up(n int) {
	top := 0
	if a.cursor.y >= a.top {
		top = a.top
	}
	a.cursor.y, a.cursor.wrap = max(a.cursor.y-n, top), false
}

func (a *area) down(n int) {
	bottom := a.rows - 1
	if a.cursor.y <= a.bottom {
		bottom = a.bottom
	}
	a.cursor.y, a.cursor.wrap = min(a.cursor.y+n, bottom), false
}

func (a *area) left(n int) { a.column(a.cursor.x - n) }

// tab moves the cursor to a later stop, or to an earlier one.
func (a *area) tab(n int) {
	for ; n > 0 && a.cursor.x < a.cols-1; n-- {
		for a.cursor.x++; a.cursor.x < a.cols-1 && !a.tabs[a.cursor.x]; a.cursor.x++ {
		}
	}
	for ; n < 0 && a.cursor.x > 0; n++ {
		a.cursor.wrap = false
		for a.cursor.x--; a.cursor.x > 0 && !a.tabs[a.cursor.x]; a.cursor.x-- {
		}
	}
}
