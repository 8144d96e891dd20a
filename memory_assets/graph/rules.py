"""The SQL rules that derive typed edges from the catalog's facts about memories.

Every rule inserts rows of one shape (source, target, type, confidence, similarity, origin, evidence, note). The evidence is the memory
that the edge was read from, or 0 if it was stated, found in a sleep cycle or derived from a pair. When a memory changes, only the
edges in `doomed` are computed again: those read from it, or from memories that its change affects. `READERS` finds these and the input
of each rule. A rule without input is not run, as planning it takes longer than running it over a small graph.

`now_memories`, `now_surfaces`, `now_mentions` and `now_cues` are views of the catalog's tables as they will be after the build;
`touched` holds the ids of changed and vanished memories. A rule first selects the rows it concerns and joins them with the large
tables, which are therefore scanned at most once, column by column, and never sorted.
"""

from memory_assets.language.statements import SURE

LINK_CONFIDENCE = 0.9
"""A `[[name]]` link shows that its author saw a connection, but not which."""
SHARED_NAME_CONFIDENCE = 0.6
"""Confidence of a link to a name that several memories have."""
RETRACTION_CONFIDENCE = 0.75
"""A new version that says that something no longer holds may mean another part of the old one."""
HUB = 50
"""Memories that mention an entity, above which it connects none of them by itself."""
ENTITY_CAP = 5
"""RELATES_TO edges per memory for shared entities: the strongest ones."""
LEAST_ENTITY_CONFIDENCE = 0.25
RENEWED_CONFIDENCE = 0.75
"""Confidence that a possible replacement is one because both have the same title and the newer is of a later day."""
DOUBT = 0.5
"""Factor from the probability of a possible replacement to the confidence of its edge."""
LIKELIEST = """
    QUALIFY probability >= max(probability) OVER (PARTITION BY new_id, new_place) - 0.1
"""
"""Filter for `graph_changes`: a newer statement replaces its likeliest older one, and those almost as likely."""

NOW = """
CREATE TEMP TABLE touched_rows AS
    SELECT names, refs, session, content_hash, project_name FROM graph_memories SEMI JOIN touched USING (id)
    UNION ALL SELECT names, refs, session, content_hash, project_name FROM changed;
CREATE TEMP VIEW now_memories AS
    FROM graph_memories ANTI JOIN touched USING (id) UNION ALL BY NAME FROM changed;
CREATE TEMP VIEW now_cues AS
    FROM graph_cues WHERE memory_id NOT IN (FROM touched) UNION ALL BY NAME FROM changed_cues;
CREATE TEMP VIEW now_changes AS
    FROM graph_changes WHERE old_id NOT IN (FROM touched) AND new_id NOT IN (FROM touched)
    UNION ALL BY NAME FROM changed_replacements;
"""

READERS = f"""
CREATE TEMP TABLE touched_names AS SELECT DISTINCT unnest(names) AS name FROM touched_rows;
CREATE TEMP TABLE link_readers AS
    SELECT id FROM touched UNION
    SELECT id FROM (SELECT id, unnest(links) AS name FROM now_memories) SEMI JOIN touched_names USING (name);
CREATE TEMP TABLE touched_refs AS SELECT DISTINCT unnest(refs) AS ref FROM touched_rows;
CREATE TEMP TABLE derived AS
    SELECT id FROM touched UNION
    SELECT id FROM (SELECT id, unnest(origins) AS ref FROM now_memories) SEMI JOIN touched_refs USING (ref);
CREATE TEMP TABLE touched_sessions AS SELECT DISTINCT session FROM touched_rows WHERE session <> '';
CREATE TEMP TABLE session_readers AS
    SELECT id FROM touched UNION SELECT id FROM now_memories SEMI JOIN touched_sessions USING (session);
CREATE TEMP TABLE changed_mentions AS
    (FROM old_mentions EXCEPT FROM new_mentions) UNION (FROM new_mentions EXCEPT FROM old_mentions);
CREATE TEMP TABLE touched_entities AS
    SELECT entity_id FROM (SELECT DISTINCT entity_id FROM changed_mentions) c
    LEFT JOIN (SELECT entity_id, count(*) AS memories FROM now_mentions SEMI JOIN changed_mentions USING (entity_id) GROUP BY ALL) f
        USING (entity_id)
    LEFT JOIN (SELECT entity_id, count(*) AS memories FROM graph_mentions SEMI JOIN changed_mentions USING (entity_id) GROUP BY ALL) b
        USING (entity_id)
    WHERE least(coalesce(f.memories, 0), coalesce(b.memories, 0)) <= {HUB};
CREATE TEMP TABLE sharers AS
    SELECT id FROM touched UNION SELECT memory_id FROM changed_mentions
    UNION SELECT memory_id FROM now_mentions SEMI JOIN touched_entities USING (entity_id)
    UNION SELECT memory_id FROM graph_mentions SEMI JOIN touched_entities USING (entity_id);
CREATE TEMP TABLE readers AS FROM link_readers UNION FROM derived UNION FROM session_readers UNION FROM sharers;
CREATE TEMP TABLE read_edges AS FROM graph_edges SEMI JOIN readers ON readers.id = evidence_id;
CREATE TEMP TABLE read_links AS
    SELECT id, project, unnest(links) AS name FROM now_memories SEMI JOIN link_readers USING (id) WHERE live;
CREATE TEMP TABLE replaced AS
    SELECT id, superseded_by FROM now_memories
    WHERE superseded_by IS NOT NULL AND (id IN (FROM touched) OR superseded_by IN (FROM touched));
CREATE TEMP TABLE read_origins AS
    SELECT id, unnest(origins) AS ref FROM now_memories SEMI JOIN derived USING (id) WHERE live;
CREATE TEMP TABLE shared_mentions AS
    SELECT memory_id, entity_id FROM now_mentions SEMI JOIN sharers s ON s.id = memory_id;
CREATE TEMP TABLE preferences AS
    FROM now_cues c SEMI JOIN sharers s ON s.id = c.memory_id WHERE c.target_kind = 'entity';
CREATE TEMP TABLE told_again AS
    SELECT id, content_hash, lead(id) OVER (PARTITION BY content_hash ORDER BY created_at, id) AS next_id FROM (
        SELECT id, content_hash, created_at, live
        FROM graph_memories SEMI JOIN touched_rows USING (content_hash) ANTI JOIN touched USING (id)
        UNION ALL SELECT id, content_hash, created_at, live FROM changed
    ) WHERE live;
CREATE TEMP TABLE twins AS
    SELECT one, two, similarity, 'similar' AS origin FROM comparisons
    UNION ALL SELECT id, next_id, 1.0, 'same text' FROM told_again WHERE next_id IS NOT NULL;
INSERT INTO doomed
    FROM read_edges SEMI JOIN link_readers r ON r.id = evidence_id WHERE origin IN ('link', 'wording')
    UNION ALL FROM read_edges SEMI JOIN derived d ON d.id = evidence_id WHERE origin = 'provenance'
    UNION ALL FROM read_edges SEMI JOIN session_readers r ON r.id = evidence_id WHERE origin IN ('session', 'sequel')
    UNION ALL FROM read_edges SEMI JOIN sharers s ON s.id = evidence_id WHERE origin IN ('entities', 'preference')
    UNION ALL
    FROM graph_edges
        WHERE origin IN ('supersession', 'similar') AND (source_id IN (FROM touched) OR target_id IN (FROM touched))
    UNION ALL
    FROM graph_edges
        WHERE origin = 'same text' AND (source_id IN (FROM touched) OR source_id IN (SELECT id FROM told_again))
    UNION ALL FROM graph_edges WHERE origin = 'claims';
"""
"""Finds the memories whose edges are read again, those edges, and the rules' input, in one scan of the largest table for evidence."""

LINKS = f"""
CREATE TEMP TABLE link_targets AS
    WITH found AS (
        SELECT r.id AS source_id, r.name, n.id AS target_id, n.project = r.project AND r.project <> '' AS at_home
        FROM read_links r
        JOIN (SELECT id, project, unnest(names) AS name FROM now_memories
              WHERE live AND list_has_any(names, (SELECT coalesce(list(DISTINCT name), []) FROM read_links))) n USING (name)
        WHERE n.id <> r.id
    )
    SELECT source_id, name, target_id, count(*) OVER (PARTITION BY source_id, name) AS bearers FROM (
        FROM found QUALIFY at_home = bool_or(at_home) OVER (PARTITION BY source_id, name)
    );
INSERT INTO wanted BY NAME
    SELECT source_id, target_id, 'RELATES_TO' AS type,
           max(CASE WHEN bearers = 1 THEN {LINK_CONFIDENCE} ELSE {SHARED_NAME_CONFIDENCE} END) AS confidence,
           'link' AS origin, source_id AS evidence_id,
           'links to [[' || min(name) || ']]' AS note
    FROM link_targets GROUP BY source_id, target_id;
INSERT INTO wanted BY NAME
    SELECT CASE WHEN outgoing THEN c.memory_id ELSE l.target_id END AS source_id,
           CASE WHEN outgoing THEN l.target_id ELSE c.memory_id END AS target_id,
           relation AS type, max(c.confidence) AS confidence, 'wording' AS origin, c.memory_id AS evidence_id,
           arg_max(sentence, (c.confidence, sentence)) AS note
    FROM now_cues c JOIN link_targets l ON l.source_id = c.memory_id AND l.name = lower(c.target)
    WHERE target_kind = 'link' AND bearers = 1 GROUP BY ALL;
"""

SUPERSESSION = f"""
CREATE TEMP TABLE superseded AS
    SELECT m.id, m.superseded_by, n.retracts FROM replaced m JOIN now_memories n ON n.id = m.superseded_by;
INSERT INTO wanted BY NAME
    SELECT id AS source_id, superseded_by AS target_id, 'EVOLVED_INTO' AS type, 1.0 AS confidence, 'supersession' AS origin,
           id AS evidence_id, 'its source was rewritten' AS note
    FROM superseded
    UNION ALL BY NAME
    SELECT id AS source_id, superseded_by AS target_id, 'INVALIDATED_BY' AS type, {RETRACTION_CONFIDENCE} AS confidence,
           'supersession' AS origin, id AS evidence_id, 'the new version says that something no longer holds' AS note
    FROM superseded WHERE retracts;
"""

PROVENANCE = """
INSERT INTO wanted BY NAME
    SELECT d.id AS source_id, r.id AS target_id, 'DERIVED_FROM' AS type, 1.0 AS confidence, 'provenance' AS origin,
           d.id AS evidence_id, 'was made from ' || min(ref) AS note
    FROM read_origins d JOIN (SELECT id, unnest(refs) AS ref FROM now_memories WHERE live) r USING (ref)
    WHERE d.id <> r.id GROUP BY d.id, r.id;
"""

SESSIONS = """
CREATE TEMP TABLE steps AS
    SELECT id, lead(id) OVER turns AS next_id, created_at < lead(created_at) OVER turns AS is_earlier, session
    FROM now_memories SEMI JOIN touched_sessions USING (session) WHERE live
    WINDOW turns AS (PARTITION BY session ORDER BY created_at, id);
INSERT INTO wanted BY NAME
    SELECT id AS source_id, next_id AS target_id, 'OCCURRED_BEFORE' AS type, 1.0 AS confidence, 'session' AS origin,
           id AS evidence_id, 'next in the same session' AS note
    FROM steps WHERE is_earlier;
INSERT INTO wanted BY NAME
    SELECT s.id AS source_id, s.next_id AS target_id, c.relation AS type, c.confidence, 'sequel' AS origin,
           s.next_id AS evidence_id, c.sentence AS note
    FROM steps s JOIN now_cues c ON c.memory_id = s.next_id WHERE c.target_kind = 'previous' AND is_earlier;
"""

ENTITIES = f"""
CREATE TEMP TABLE partners AS
    SELECT memory_id, entity_id, count(*) OVER (PARTITION BY entity_id) AS memories
    FROM now_mentions SEMI JOIN shared_mentions USING (entity_id)
    QUALIFY memories BETWEEN 2 AND {HUB};
INSERT INTO wanted BY NAME
    WITH shared AS (
        SELECT a.memory_id, b.memory_id AS other, entity_id, 1 / log2(1 + b.memories) AS weight
        FROM shared_mentions a JOIN partners b USING (entity_id) WHERE b.memory_id <> a.memory_id
    ),
    pairs AS (
        SELECT memory_id, other, sum(weight) / (1 + sum(weight)) AS confidence,
               list(entity_id ORDER BY weight DESC, entity_id) AS names
        FROM shared GROUP BY memory_id, other
        HAVING sum(weight) / (1 + sum(weight)) >= {LEAST_ENTITY_CONFIDENCE}
        QUALIFY row_number() OVER (PARTITION BY memory_id ORDER BY round(confidence, 9) DESC, other) <= {ENTITY_CAP}
    ),
    named AS (
        SELECT memory_id, other, confidence, unnest(names[:3]) AS id, generate_subscripts(names[:3], 1) AS place FROM pairs
    )
    SELECT memory_id AS source_id, other AS target_id, 'RELATES_TO' AS type, round(confidence, 6) AS confidence,
           'entities' AS origin, memory_id AS evidence_id, 'both mention ' || string_agg(label, ', ' ORDER BY place) AS note
    FROM named JOIN now_entities USING (id) GROUP BY memory_id, other, confidence;
"""

PREFERENCES = """
CREATE TEMP TABLE preferring_surfaces AS FROM now_surfaces SEMI JOIN preferences USING (memory_id);
INSERT INTO wanted BY NAME
    SELECT a.entity_id AS source_id, b.entity_id AS target_id, c.relation AS type, max(c.confidence) AS confidence,
           'preference' AS origin, c.memory_id AS evidence_id, arg_max(sentence, (c.confidence, sentence)) AS note
    FROM preferences c
    JOIN preferring_surfaces sa ON sa.memory_id = c.memory_id AND lower(sa.text) = lower(c.target)
    JOIN now_aliases a ON a.text = sa.text AND a.type = sa.type
    JOIN preferring_surfaces sb ON sb.memory_id = c.memory_id AND lower(sb.text) = lower(c.other)
    JOIN now_aliases b ON b.text = sb.text AND b.type = sb.type
    WHERE a.entity_id <> b.entity_id GROUP BY ALL;
"""

SIMILARITY = """
INSERT INTO wanted BY NAME
    SELECT CASE WHEN first_is_one THEN one ELSE two END AS source_id, CASE WHEN first_is_one THEN two ELSE one END AS target_id,
           CASE WHEN independent THEN 'REINFORCES' ELSE 'RELATES_TO' END AS type, similarity AS confidence, similarity, origin,
           0 AS evidence_id, CASE WHEN origin = 'similar' THEN 'says the same in other words' ELSE 'says the same' END AS note
    FROM (
        WITH ends AS (SELECT one AS id FROM twins UNION SELECT two FROM twins),
        told AS (SELECT id, created_at, source, author, session FROM now_memories SEMI JOIN ends USING (id) WHERE live)
        SELECT t.*, (a.created_at, a.id) < (b.created_at, b.id) AS first_is_one,
               a.source <> b.source OR a.author <> b.author OR (a.session <> b.session AND a.session <> '' AND b.session <> '')
                   AS independent
        FROM twins t JOIN told a ON a.id = t.one JOIN told b ON b.id = t.two
    );
"""

CLAIMS = f"""
CREATE TEMP TABLE of_many AS
    SELECT memory_id FROM graph_statements WHERE place > 1 AND memory_id NOT IN (FROM touched)
    UNION SELECT memory_id FROM changed_statements WHERE place > 1;
CREATE TEMP TABLE claims AS
    WITH found AS (
        SELECT c.*, c.type = 'RELATES_TO' AND a.title <> '' AND lower(a.title) = lower(b.title)
                    AND b.created_at - a.created_at >= INTERVAL 1 DAY AS is_renewed
        FROM now_changes c JOIN now_memories a ON a.id = old_id JOIN now_memories b ON b.id = new_id
    ),
    best AS (
        SELECT * REPLACE (if(is_renewed, 'EVOLVED_INTO', type) AS type, if(is_renewed, {RENEWED_CONFIDENCE}, confidence) AS confidence)
        FROM found {LIKELIEST}
    )
    SELECT old_id AS source_id, new_id AS target_id, type, confidence, note FROM best
    WHERE old_place = 0 AND (confidence >= {SURE * DOUBT} OR (old_id NOT IN (FROM of_many) AND new_id NOT IN (FROM of_many)))
    QUALIFY row_number() OVER (PARTITION BY old_id, new_id ORDER BY probability DESC, new_place) = 1;
DELETE FROM wanted w USING claims c
    WHERE origin = 'similar' AND c.type <> 'RELATES_TO'
      AND ((c.source_id = w.source_id AND c.target_id = w.target_id) OR (c.source_id = w.target_id AND c.target_id = w.source_id));
INSERT INTO wanted BY NAME
    SELECT source_id, target_id, type, confidence, 'claims' AS origin, note FROM claims;
"""

RULES = {
    "read_links": LINKS,
    "replaced": SUPERSESSION,
    "read_origins": PROVENANCE,
    "touched_sessions": SESSIONS,
    "shared_mentions": ENTITIES,
    "preferences": PREFERENCES,
    "twins": SIMILARITY,
    "now_changes": CLAIMS,
}
"""Rules by the name of their input table."""

KEPT = """
INSERT INTO doomed
    FROM graph_edges WHERE origin = 'stated'
    UNION ALL
    FROM graph_edges WHERE origin = 'analyzer'
        AND (evidence_id IN (FROM asked) OR source_id IN (FROM touched) OR target_id IN (FROM touched))
    UNION ALL FROM graph_edges WHERE origin = 'creative' AND (source_id IN (FROM touched) OR target_id IN (FROM touched))
    UNION ALL SELECT e.* FROM graph_edges e SEMI JOIN touched ON touched.id = e.source_id WHERE origin = 'cluster';
INSERT INTO wanted BY NAME
    SELECT source_id, target_id, type, similarity AS confidence, similarity, 'creative' AS origin,
           'found in sleep, ' || week AS note
    FROM creative_links WHERE source_id IN (FROM touched) OR target_id IN (FROM touched);
INSERT INTO wanted BY NAME
    SELECT memory_id AS source_id, cluster_id AS target_id, 'PART_OF' AS type, closeness AS confidence, closeness AS similarity,
           'cluster' AS origin, 'one of a cluster' AS note
    FROM cluster_members SEMI JOIN touched ON touched.id = memory_id;
INSERT INTO wanted BY NAME
    SELECT source_id, target_id, type, max(confidence) AS confidence, 'analyzer' AS origin, memory_id AS evidence_id,
           arg_max(note, (confidence, note)) AS note
    FROM analyzer_links
    WHERE memory_id IN (FROM asked) OR source_id IN (FROM touched) OR target_id IN (FROM touched) GROUP BY ALL;
"""

DECIDED = """
CREATE TEMP TABLE decided AS
    SELECT source_id AS one, target_id AS two FROM relations UNION SELECT target_id, source_id FROM relations;
INSERT INTO doomed
    SELECT e.* FROM graph_edges e SEMI JOIN decided d ON d.one = e.source_id AND d.two = e.target_id WHERE origin = 'claims';
DELETE FROM wanted w USING decided d WHERE origin = 'claims' AND d.one = w.source_id AND d.two = w.target_id;
"""
"""A relation that somebody stated about two memories overrides what the rules read in their statements."""
