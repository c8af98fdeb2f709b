"""Files, tables and arrays -> ragged series; scaling, splitting, windows, padding."""
