package index

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"modernc.org/sqlite"
)

// database is an SQLite database in memory. It is for one goroutine at a time.
type database struct{ conn driver.Conn }

// serial is what a connection can do besides.
type serial interface {
	Serialize() ([]byte, error)
	Deserialize([]byte) error
}

// newDatabase makes an empty one. It has rows for words without the words themselves, their positions or how many there are.
func newDatabase() (*database, error) {
	d, err := openMemory()
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		`CREATE VIRTUAL TABLE words USING fts5(text, content='', columnsize=0, detail=none, tokenize='ascii')`,
		`CREATE TABLE parts(name TEXT PRIMARY KEY, data BLOB) WITHOUT ROWID`,
	} {
		if err := d.exec(statement); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func openMemory() (*database, error) {
	conn, err := (&sqlite.Driver{}).Open(":memory:")
	if err != nil {
		return nil, fmt.Errorf("open a database in memory: %w", err)
	}
	d := &database{conn}
	for _, setting := range []string{`PRAGMA temp_store=MEMORY`, `PRAGMA cache_size=-64`, `PRAGMA trusted_schema=OFF`} {
		if err := d.exec(setting); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// loadDatabase opens one that was serialized.
func loadDatabase(data []byte) (*database, error) {
	d, err := openMemory()
	if err != nil {
		return nil, err
	}
	s, ok := d.conn.(serial)
	if !ok {
		err = errors.New("the driver can't load a database")
	} else {
		err = s.Deserialize(data)
	}
	if err != nil {
		d.close()
		return nil, fmt.Errorf("load a database: %w", err)
	}
	return d, nil
}

// serialize gives the whole database, with nothing in it that was removed.
func (d *database) serialize() ([]byte, error) {
	for _, statement := range []string{`INSERT INTO words(words) VALUES('optimize')`, `VACUUM`} {
		if err := d.exec(statement); err != nil {
			return nil, err
		}
	}
	s, ok := d.conn.(serial)
	if !ok {
		return nil, errors.New("the driver can't store a database")
	}
	return s.Serialize()
}

func (d *database) close() { _ = d.conn.Close() } // it is memory

func (d *database) exec(statement string, args ...driver.Value) error {
	of, ok := d.conn.(driver.ExecerContext)
	if !ok {
		return errors.New("the driver executes nothing")
	}
	if _, err := of.ExecContext(context.Background(), statement, named(args)); err != nil {
		return fmt.Errorf("write an index: %w", err)
	}
	return nil
}

func named(args []driver.Value) (out []driver.NamedValue) {
	for i, a := range args {
		out = append(out, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return out
}

// rows calls fn with the first column of each row.
func (d *database) rows(fn func(driver.Value) error, query string, args ...driver.Value) error {
	of, ok := d.conn.(driver.QueryerContext)
	if !ok {
		return errors.New("the driver answers nothing")
	}
	rows, err := of.QueryContext(context.Background(), query, named(args))
	if err != nil {
		return fmt.Errorf("ask an index: %w", err)
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("ask an index: %w", err)
		}
		if err := fn(row[0]); err != nil {
			return err
		}
	}
}

// add has a row of words.
func (d *database) add(id int64, words string) error {
	return d.exec(`INSERT INTO words(rowid, text) VALUES(?, ?)`, id, words)
}

// match calls fn with the rows that an expression is true of, the last one first.
func (d *database) match(expression string, fn func(id int64)) error {
	return d.rows(func(v driver.Value) error {
		id, _ := v.(int64)
		fn(id)
		return nil
	}, `SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC`, expression)
}

// vocabulary calls fn with all words.
func (d *database) vocabulary(fn func(word string)) error {
	if err := d.exec(`CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, row)`); err != nil {
		return err
	}
	return d.rows(func(v driver.Value) error {
		if word, ok := v.(string); ok {
			fn(word)
		}
		return nil
	}, `SELECT term FROM temp.vocabulary`)
}

// put keeps something under a name.
func (d *database) put(name string, data []byte) error {
	return d.exec(`INSERT INTO parts(name, data) VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET data = excluded.data`, name, data)
}

// get gives what is kept under a name; nil if there is nothing.
func (d *database) get(name string) (data []byte, err error) {
	err = d.rows(func(v driver.Value) error {
		data, _ = v.([]byte)
		return nil
	}, `SELECT data FROM parts WHERE name = ?`, name)
	return data, err
}

// size is what the database takes, in bytes.
func (d *database) size() (n int64) {
	_ = d.rows(func(v driver.Value) error {
		n, _ = v.(int64)
		return nil
	}, `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`)
	return n
}
