"""Short word problems as families: the facts, and a question about them.

Each `Story` is one family of one operation, with alternatives as in `grammar`. `{a}` and `{b}` are the operands in
the calculator's order (`{a}` comes first in the text where that order does not matter). They are counts: not negative,
no more is taken away than there is, nothing is divided by zero. The same setup also serves texts without a calculation
of two numbers: `third`, between setup and question, adds a third number, and `other` replaces the question by one that
needs no calculation. `CROSSED` says which operations' questions leave a setup of another operation without a
calculation, and `TRICKS` are stories that look like a calculation of their two numbers and are none. Fields: {a} {b}
{c}, {name} {other} {thing}.
Only data, no logic. Try it: `pytest tests/data/test_wording.py -k stories`.
"""

from typing import NamedTuple


__all__ = ["CROSSED", "STORIES", "TRICKS", "Story"]


class Story(NamedTuple):
    """One family of word problems; each field is a line with alternatives.

    Attributes:
        setup: The facts, with both operands.
        question: Asks for the result of the operation.
        third: A sentence with a third number that changes the result.
        other: A question that needs no calculation.
    """

    setup: str
    question: str
    third: str
    other: str


# fmt: off
STORIES: dict[str, tuple[Story, ...]] = {
    "+": (
        Story("{name} (has|owns|keeps) {a} {thing}( and|. Then {name}|. Today {name}) (gets|buys|finds) {b} more.",
              "(How many {thing} does {name} (have|own) now?|How many {thing} are there (now|in all)?|How many is "
              "that?)",
              "(Later|After that) {name} (loses|sells|gives away) {c}( of them|).",
              "(Who (has|gets) {thing}?|What does {name} own?|How many {thing} did {name} have (at first|before)?)"),
        Story("{name} (had|owned) {a} {thing}( and bought|. Yesterday {name} bought|, and {other} gave {name}) {b} "
              "more.",
              "(How many {thing} (are there now|does {name} have now|is that in total)?|What is the total?)",
              "(Then|In the evening) {name} (lost|broke|sold) {c}( of them|).",
              "(What did {name} buy?|Who is {name}?|Does {name} like {thing}?|How many were bought?)"),
        Story("{name} (has|collected|found) {a} {thing}(. {other} (has|collected|found)| and {other} has) {b}( "
              "{thing}|).",
              "How many {thing} (do they have|is that|are there) (together|altogether|in all|in total)?",
              "(Their friend|A third child|Their teacher) has {c}( {thing}|).",
              "(Who has more {thing}?|Who has fewer {thing}?|How many {thing} does {other} have?|Are they friends?)"),
        Story("{name} (sees|counts|finds) {a} {thing} (on the table|in the kitchen|upstairs) and {b} on the floor.",
              "(How many {thing} (are there|does {name} see) (in all|altogether|in total)?|How many {thing} is that?)",
              "(Under the bed|In the garden|Outside) there are {c}( more|).",
              "(Where are the {thing}?|How many {thing} are on the floor?|Who (sees|counts) {thing}?)"),
        Story("(On Monday|In the morning|At first) {name} (counted|sold|packed) {a} {thing}(, and| and) {b} "
              "(later|after that|the next time).",
              "(How many {thing} is that (in total|in all|altogether)?|What is the total?|How many {thing} in all?)",
              "(The day after|The next time|Last of all) it was {c}( more|).",
              "(When did {name} do that?|What did {name} do?|Which number was larger?|Which day came first?)"),
        Story("There (are|were) {a} {thing} (on the table|in the box|in the shop)(, and|. Then) {name} (brings|adds) "
              "{b} (more|others|new ones).",
              "How many {thing} are (there now|there in all|there altogether|there then)?",
              "(Somebody|A child|A dog) takes {c} (away|of them|back).",
              "(Who brings {thing}?|Where (are|were) the {thing}?|How many {thing} did {name} bring?)"),
        Story("A (box|bag|basket|drawer) (holds|has) {a} (red|large|old) {thing} and {b} (blue|small|new) {thing}.",
              "How many {thing} (does it hold|are in it|are there) (altogether|in all|in total)?",
              "(It also holds|There are also|Besides, there are) {c} green ones.",
              "(Are there more red or more blue ones?|Which colour is rarer?|What is in it?|Is it heavy?)"),
        Story("A (school|class|choir|group) has {a} girls (and|as well as) {b} boys.",
              "How many (children|boys and girls|young people) (are there|does it have)( in all| altogether|)?",
              "(It also has|There are also) {c} teachers.",
              "(Are there more boys or more girls?|How many boys are there?|Who is older?)"),
        Story("A (bus|train|boat) (carries|has) {a} (people|passengers). (At the next stop|In {name}'s town) {b} "
              "(more|others) get on.",
              "How many (people|passengers) (are on it now|are on board now|does it carry now)?",
              "(One stop later|Then) {c} get off.",
              "(Where do they get on?|Who drives it?|How many (people|passengers) got on?|Is it full?)"),
        Story("{name} (drove|rode|walked|ran) {a} miles (on Friday|in the morning|yesterday) and {b} miles (on "
              "Saturday|at night|today).",
              "(How (many miles|far) is that (altogether|in all|in total)?|How many miles did {name} go?)",
              "(On Sunday|Later) it was another {c} miles.",
              "(When did {name} go farther?|Was {name} tired?|How far was it the second time?)"),
        Story("{name} (had|saved|owned) {a} dollars(. Then {name}| and then|, and last week {name}) (earned|won|got) "
              "{b} dollars( more|).",
              "(How many dollars (does {name} have|are there) now?|How much money (is that|does {name} have) now?)",
              "(Later {name}|The next day {name}) spent {c} dollars.",
              "(What will {name} buy?|How much did {name} have before?|Who had the money?)"),
        Story("(One|The first|The thin) book has {a} pages(, and another|. Another|. The other one) has {b}( pages|).",
              "How many pages (do they have|is that|are these) (together|altogether|in all)?",
              "(The|A) third (one|book) has {c}( pages|).",
              "(Which (one|book) is longer?|Who wrote them?|How many pages has the shorter one?|Are they any good?)"),
        Story("(The|A|{name}'s) farm has {a} (cows|horses|hens) and {b} (sheep|goats|pigs).",
              "How many animals (are there|live there|does it have)( in all|)?",
              "(There are also|It also has) {c} ducks.",
              "(Which animals are there?|Are there more (sheep|goats|pigs)?|Who feeds them?)"),
        Story("(A|The) (tank|pool|barrel) (held|had) {a} liters(, and {name}|. {name}) (poured in|added) {b} more( "
              "liters|).",
              "How (many liters are in it|much is in it|many liters does it hold|much does it hold) now?",
              "(In the night|Then) {c} liters (ran out|leaked away).",
              "(Who (poured|added) it?|How much was in it (before|at first)?|Is it full now?)"),
        Story("(The team|{name}|Our class) (scored|won|got) {a} points in the first (game|round) and {b} (points "
              "|)in the second( one|).",
              "(What is the total?|How many points (is that|are these)( in all| in total)?|What is the score now?)",
              "In the (last|next) game (the team|they) lost {c} points.",
              "(When did they get more points?|Which game was better?|Who plays?|How many points were won in the "
              "second?)"),
        Story("{name} (paid|gave) {a} dollars for a (lamp|coat|chair) and {b} dollars for a (table|hat|clock).",
              "(How much (was|is) that (altogether|in all)?|What did everything cost( together|)?)",
              "(Then {name} bought|There was also) a bag for {c} dollars.",
              "(What did {name} buy?|Which was cheaper?|What did the second one cost?|Where is the shop?)"),
        Story("{a} (people|children) live in (the village|the old town|{name}'s street) and {b} "
              "(outside|elsewhere|in the next one).",
              "How many (is that|are these|live there) (in all|altogether|in total)?",
              "(And|Another) {c} (more |)live (on the island|by the river).",
              "(Where do more of them live?|Where does {name} live?|Which place is larger?)"),
    ),
    "-": (
        Story("{name} (has|had|owned) {a} {thing} and (gave away|lost|sold) {b}( of them|).",
              "How many {thing} (are left|remain|does {name} still have|are still there)?",
              "(Then {name}|The next day {name}) (found|bought|got) {c}( new ones|).",
              "(Who lost something?|What did {name} have?|How many {thing} did {name} have (at first|before)?)"),
        Story("(Of|Out of) {a} {thing}, {name} (sold|ate|broke|gave away) {b}.",
              "How many {thing} (remain|are left|did {name} keep|were not used)?",
              "(Later|After that) {name} (made|found) {c} (more|others).",
              "(What did {name} do with the {thing}?|Who had {thing}?|Why did {name} do that?)"),
        Story("There (were|are) {a} {thing} in the (store|box|room|bag)(, and {name}|. {name}|. Then {name}) "
              "(took|takes) {b} of them( away|).",
              "How many (of them |{thing} |)are (still there|left|still in it)?",
              "(Then {other}|After that {other}) (brought|brings) {c}( more|).",
              "(Where (were|are) the {thing}?|Who took {thing}?|How many did {name} take?)"),
        Story("{name} (needs|wants|must bring) {a} {thing}(, but has only| and already has|. {name} has only) {b}.",
              "How many( more|) (are (missing|needed)|{thing} are (missing|needed)|does {name} still need)?",
              "(A friend|{other}) (brings|gives {name}) {c}( more|).",
              "(What does {name} need?|Does {name} have enough {thing}?|Why does {name} need them?)"),
        Story("{name} (has|owns|keeps) {a} {thing}( and|, while|. But) {other} (has|owns|keeps) (only |){b}( "
              "{thing}|).",
              "(How many more {thing} does {name} have( than {other}|)?|How many (fewer|less) does {other} have?)",
              "(Then|Later) {name} gets {c} more.",
              "(Who has more {thing}?|How many {thing} does {other} have?|Do they have {thing}?|Who has {thing}?)"),
        Story("{b} of (the|{name}'s|these) {a} {thing} are (red|old|broken|sold).",
              "How many (of them |{thing} |)are (not|different)?",
              "(Another|Besides,) {c} are (lost|missing).",
              "(What colour are they?|How many {thing} are there in all?|Whose {thing} are they?)"),
        Story("(A|The) (school|class|club|choir) has {a} (children|members|people)(, and|.) {b} of them are "
              "(girls|boys|women).",
              "How many (are not|of them are not|others are there|are the others)?",
              "(Next week|Tomorrow) {c} (leave|come).",
              "(How many children are in the school?|Where is it?|Who is the teacher?)"),
        Story("(A|The) (bus|train|boat) (carries|has) {a} (people|passengers)(, and|. At the next stop|. Then) {b} "
              "get off.",
              "How many (people|passengers) (are still on it|are left|stay on board|does it carry now)?",
              "(One stop later|Then) {c} get on.",
              "(Where do they get off?|Who drives?|How many (people|passengers) got off?|Was it full?)"),
        Story("{name} (must|wants to|has to) (drive|walk|run|ride) {a} miles(, and {b} are done| and has done {b}|. "
              "So far {name} has done {b}).",
              "(How many miles are left?|How far is it (still|now)?|How many more miles (are there|must {name} go)?)",
              "(After that|Then) {name} goes another {c}.",
              "(Where does {name} go?|Is {name} fast?|How far has {name} gone?)"),
        Story("{name} (had|saved|earned) {a} dollars( and|. Then {name}|, but then {name}) (spent|paid|lost) {b}( "
              "dollars|).",
              "(How many dollars (are left|remain|does {name} still have)?|How much( money|) (is left|does {name} "
              "still have)?)",
              "(The week after|Then) {name} (got|earned) {c} dollars.",
              "(What did {name} buy?|How much did {name} have (before|at first)?|Who paid?)"),
        Story("(A|The|{name}'s) book has {a} pages(. {name} has read|, and {name} has read|. {name} read) {b}( of "
              "them|).",
              "How many pages (are left( to read|)|has {name} not read|must {name} still read|remain)?",
              "(Today|Tonight) {name} reads {c} (more|others).",
              "(What does {name} read?|How (long|thick) is the book?|Who wrote the book?|Is it a good book?)"),
        Story("(From|Out of) a (box|bag|basket|jar) (with|of) {a} {thing}(, {name}|, somebody) (takes|took) (out "
              "|){b}.",
              "How many (of them |{thing} |)(stay in it|are left|are still in it)?",
              "(Then|Afterwards) {c} are put (back|into it).",
              "(What is in it?|How many were taken?|Who (takes|took) them?)"),
        Story("{b} of (the|our|all) {a} (guests|visitors|players) (go home|leave|are gone)(.| already.)",
              "How many (of them |)(remain|stay|are left|are still there)?",
              "(Then|Later) {c} (others come|come back).",
              "(Where do they live?|Who (goes home|leaves)?|How many (were|came) there at first?|Is it late?)"),
        Story("(A|The) (tank|pool|barrel) (held|had) {a} liters(, but|. Then|, and) {b} liters (ran out|were "
              "used|leaked away).",
              "(How many liters (are left|are in it now|remain)?|How much (does it hold now|is left)?)",
              "(In the night|Then) {name} (poured in|added) {c}.",
              "(What happened?|How much was in it (before|at first)?|Is it empty?|Who used the water?)"),
        Story("A (hall|plane|theatre|cinema) has {a} seats(, of which {b} are taken|. {b} of them are taken|, and "
              "{b} are not free).",
              "How many (seats |)are (free|empty|not taken|still free)?",
              "(Later|Soon) {c} more people come.",
              "(Is it full?|How many seats does it have?|Where is {name}?|When does it begin?)"),
        Story("(The|This|{name}'s) (price|rent|debt) was {a} dollars( and|, but|. Then it) (fell|went down|dropped) "
              "by {b}( dollars|).",
              "(What is it now?|How (much|many dollars) is it now?|How high is it now?)",
              "(A year later|Then) it (rose|went up) by {c}( dollars|).",
              "(Why did it fall?|What was it before?|Is that good?|Who pays it?)"),
        Story("(A|The|{name}'s) rope is {a} feet long(, and|. Then|, but) {b} feet are (cut off|thrown away|lost).",
              "(How many feet are left?|How long is (the rest|it now|what is left)?)",
              "(Then|Later) another {c} are cut off.",
              "(How long was it?|What is it for?|Who cut it?|Where is the rope?)"),
    ),
    "*": (
        Story("{name} (has|buys|carries) {a} (boxes|bags|packs) (with|of) {b} {thing} (each|in each|in every one).",
              "How many {thing} (are there in all|is that|does {name} have|are these)?",
              "(Besides|In addition), there are {c} (more |loose |){thing}.",
              "(What is in (them|the boxes)?|How many (boxes|bags|packs) are there?|Who carries them?)"),
        Story("(Every day for|On each of) {a} days(,|) {name} (collects|finds|makes|sells) {b} {thing}.",
              "How many {thing} is that (in total|in all|altogether|at the end)?",
              "(On the last day|Then) {c} of them get lost.",
              "(How many days is it?|What does {name} do?|Is it hard work?|Who helps?)"),
        Story("{name} (puts|lays|wants) {a} {thing} on (each|every one) of {b} (tables|plates|chairs|shelves).",
              "How many {thing} (are there then|is that|are on them)( in all|)?",
              "(Then|Later) {other} takes {c} away.",
              "(Where are the {thing}?|How many tables are there?|Who lays the table?)"),
        Story("(There are|{name} sees|The hall has) {a} rows (with|of) {b} (seats|chairs|trees|places) (each|in each "
              "row).",
              "How many (of them |)(are there|is that|are these) (in all|altogether|in total)?",
              "(At the back|Besides), there are {c} more.",
              "(How many rows are there?|Where does {name} sit?|Are they all taken?)"),
        Story("(Each|Every one) of (the |){a} (children|guests|friends) (has|brings|gets|holds) {b} {thing}.",
              "How many {thing} (do they have|is that|are there) (altogether|in all|in total)?",
              "(The teacher|{name}) (has|brings) {c}( more|).",
              "(Who has {thing}?|How many (children|guests) are there?|Do they know {name}?)"),
        Story("(One|A) (ticket|lamp|book|meal) costs {a} dollars(, and|.) {name} (buys|needs|wants) {b}( of them|).",
              "(What (do they cost together|does {name} pay)?|How much (is that|does {name} pay)?|How many dollars "
              "is that?)",
              "(There is also a fee of|The way there costs) {c} dollars.",
              "(What does {name} buy?|What does one cost?|Is it expensive?|How many does {name} want?)"),
        Story("{name} (earns|gets|saves) {a} dollars (a|per|each|every) day for {b} days.",
              "How (many dollars|much money|much) (is that|does {name} have then|is it in the end)?",
              "(In the end|Then) {name} spends {c} dollars.",
              "(What is {name}'s work?|How long does {name} work?|Is it well paid?)"),
        Story("{name} reads {a} pages (a|per|every) day(,| and) (does so |)for {b} days.",
              "How many pages (is that|does {name} read)( in all| in total| altogether|)?",
              "(Then|On Sunday) {name} reads {c} more.",
              "(What does {name} read?|How many days is it?|Who likes books?|Is it a long book?)"),
        Story("A (car|train|bus) (goes|drives|travels) {a} miles (per|an|every) hour. It (goes|drives|is on the way) "
              "for {b} hours.",
              "How (far|many miles) (does it go|is that|does it get)?",
              "(Then|After that) it goes another {c} miles.",
              "(How fast is it?|Who drives?|Where does it go?|How long does it take?)"),
        Story("(A|One|Each) bag holds {a} {thing}(, and there are| and {name} has|. There are) {b} (bags|such "
              "bags|of these bags).",
              "How many {thing} (are there|is that|do they hold|are in them) (altogether|in all|in total)?",
              "(But|Now) {c} of the {thing} are (broken|missing).",
              "(What is in them?|Are they full?|Whose {thing} are they?)"),
        Story("{a} (shelves|boxes|rooms) (hold|have|contain) {b} (tools|{thing}) each.",
              "How many (of them |)(is that|are there|are these)( in all| altogether| in total|)?",
              "(On the floor|On the table) there are {c} more.",
              "(Where are they?|How many (shelves|boxes) are there?|Who put them there?)"),
        Story("{name} (buys|orders|sells) {a} {thing} (at|for) {b} dollars (each|apiece|a piece).",
              "How (much|many dollars) (is that|does it make|is it)( altogether| in all|)?",
              "(There is|{name} gets) {c} dollars off.",
              "(What does {name} (buy|sell)?|How much is one?|Who pays?|Is that cheap?)"),
        Story("(A|The|{name}'s) garden has {a} rows with {b} (trees|bushes|plants)( in each| each| in every row).",
              "How many (plants|of them) (grow there|are there|are in it)( in all|)?",
              "(In the winter|Last year) {c} of them died.",
              "(How many rows are there?|Whose garden is it?|What grows there?)"),
        Story("A (machine|printer|factory) makes {a} {thing} (per|an|every) hour. It (runs|works|is on) for {b} "
              "hours.",
              "How many {thing} (does {name} get|is that|are there then|can be sold)?",
              "(But|In the end) {c} of them are broken.",
              "(What does it make?|How long does it run?|Is it loud?|Where is it?)"),
        Story("{a} (buses|boats|wagons) (carry|take|hold) {b} people each.",
              "How many people (is that|are on the way|are there|travel)( in all| altogether|)?",
              "(Besides|Moreover), {c} people walk.",
              "(Where do they go?|How many (buses|boats) are there?|Who drives?)"),
        Story("(A|The) (hotel|house|tower) has {a} floors (with|of) {b} rooms (each|on each|on every floor).",
              "How many rooms (does it have|are there|is that)( in all| altogether|)?",
              "(Below|In the garden) there are {c} more( rooms|).",
              "(How high is it?|How many floors are there?|Does {name} live there?)"),
        Story("(In a league|Here|At school) {a} teams have {b} (players|members) each.",
              "How many (players|members|people) (are there|is that|are these)( in all| altogether|)?",
              "(Of these|Today) {c} are (ill|away).",
              "(Which team is best?|How many teams are there?|Who wins?)"),
    ),
    "/": (
        Story("{name} (shares|divides|splits) {a} {thing} (equally|evenly|fairly) among {b} "
              "(friends|children|people).",
              "How many( {thing}|) does (each|each of them|every one|one of them) get?",
              "(But {name} keeps|First {name} eats) {c}( of them|).",
              "(What is shared?|Who gets {thing}?|How many people get {thing}?|Is that fair?)"),
        Story("{name} (packs|puts|sorts) {a} {thing} into {b} (equal |)(boxes|bags|baskets)(, the same number in "
              "each|).",
              "How many {thing} (are in each|go into each|are in one of them|does each hold)?",
              "(Before that|First) {c} are thrown away.",
              "(What is in them?|How many {thing} are there?|Who does it?)"),
        Story("(There are|{name} has) {a} {thing}(, and| and) (each|every) box (holds|takes) {b}( of them|).",
              "How many boxes (are needed|does {name} need|are filled|is that)?",
              "(But|Then) {c} of the {thing} are (lost|sold).",
              "(What (is|goes) in each?|How many {thing} are there?|Is that a lot?)"),
        Story("{b} (friends|children|brothers) share {a} {thing} (equally|evenly|fairly).",
              "How many( {thing}|) does (each|each of them|every one|one of them) get?",
              "(But|Then) {c} more (friends|children) come.",
              "(Who shares?|What do they share?|How many of them are there?)"),
        Story("{name} (earned|got|made) {a} dollars in {b} days(, the same each day|).",
              "How (many dollars|much) (is that|was it) (per|a|each|every) day?",
              "(Then|Later) {name} (earned|got) {c} dollars more.",
              "(How long did it take?|What did {name} do?|How much did {name} earn?)"),
        Story("(A|The|{name}'s) book has {a} pages(. {name} reads|, and {name} reads|, of which {name} reads) {b} "
              "(pages |)(a|per|every) day.",
              "(How many days (does it take|is that|does {name} need)?|For how many days does it last?)",
              "(So far|Up to now) {c} pages are done.",
              "(How long is the book?|What does {name} read?|Is it a good book?|How much does {name} read?)"),
        Story("(A|The) (car|train|bus|boat) (drove|went|travelled) {a} miles in {b} hours.",
              "(How (many miles|far) (is that|was it) (per|in an|each|every) hour?|How fast was (it|that)?)",
              "(It stopped for|In between it waited) {c} minutes.",
              "(How far did it go?|How long did it take?|Who drove?|Where did it go?)"),
        Story("(A|The) (car|train|bus|boat) (drives|goes|travels) {b} miles (per|an|every) hour. {name} (must|wants "
              "to) go {a} miles.",
              "How (many hours|long) (does it take|is that|does {name} need)?",
              "(First|Before that) {name} walks {c} miles.",
              "(How far is it?|How fast is it?|Where does {name} go?)"),
        Story("{b} (chairs|lamps|shirts|meals) cost {a} dollars( together| in all| altogether|).",
              "(How (much|many dollars) does one( of them|) cost?|What does (one|a single one) cost?)",
              "(The way there costs|There is a fee of) {c} dollars.",
              "(How many are bought?|Who buys them?|What do all of them cost?)"),
        Story("(One|A|Each) (ticket|lamp|book|meal) costs {b} dollars(, and|.) {name} has {a} dollars.",
              "How many( of them|) (can {name} (buy|get|pay for)|does {name} get|are possible)?",
              "(First|But first) {name} spends {c} dollars.",
              "(What does one cost?|How much money does {name} have?|What will {name} buy?)"),
        Story("{a} (seats|chairs|trees) (stand|are) in {b} (equal |)rows(, the same in each row|).",
              "How many( of them|) are in (a|one|each|every) row?",
              "(Then|Today) {c} are taken away.",
              "(How many rows are there?|Where do they stand?|Who sits there?)"),
        Story("{a} (seats|chairs|trees|soldiers) (stand|are) in rows of {b}.",
              "How many rows (are there|is that|are these|do they make)?",
              "(Then|Besides) {c} (more |)stand (at the back|alone).",
              "(How many are in a row?|How many are there in all?|Who sees them?)"),
        Story("{a} (children|people|players|guests) (form|make|are in) {b} equal teams.",
              "How many( of them|) are in (each|every|one|a) team?",
              "(Then|In the end) {c} go home.",
              "(How many teams are there?|What do they play?|Who wins?)"),
        Story("{a} (children|people|players|guests) (form|make) groups of {b}.",
              "How many groups (are there|is that|do they make)?",
              "(Then|A little later) {c} more come.",
              "(How large is a group?|What do they play?|Is {name} there?)"),
        Story("{name} cuts a rope (of|that is) {a} feet( long|) into {b} (equal pieces|pieces of the same "
              "length|equal parts).",
              "How (long|many feet long) is (each|one of them|a piece|every one)?",
              "(First|Before that) {c} feet are cut off.",
              "(How long is the rope?|Who cuts it?|How many pieces are there?)"),
        Story("A (machine|printer|factory) makes {b} {thing} (per|an|every) hour. {name} (needs|wants|orders) {a} "
              "{thing}.",
              "How (many hours|long) (does it take|does it need|is that)?",
              "(But|By now) {c} are already there.",
              "(What does it make?|How many {thing} does {name} (need|want)?|Is it fast?)"),
        Story("{name} (walks|does|makes) {a} steps in {b} days(, the same number each day|).",
              "How many steps (is that|are these) (per|a|each|every) day?",
              "(Then|Later) {name} (walks|does) {c} more.",
              "(How long does {name} walk?|Is {name} tired?|How many steps are there?)"),
        Story("{name} has {a} dollars and (spends|needs|pays) {b} (dollars |)(a|per|every) (day|week|month).",
              "(How long does (it|the money) last?|For how long is (it|that) enough?|How often can {name} do "
              "(it|that)?)",
              "(First|Before that) {name} loses {c} dollars.",
              "(What does {name} (buy|pay)?|How much (money |)does {name} have?|Is {name} rich?)"),
        Story("{a} (bricks|{thing}) are (packed|put) (into|in) boxes of {b}.",
              "How many boxes (is that|are there|are needed|do they fill)?",
              "(Before that|First) {c} of them break.",
              "(What is packed?|How many are in a box?|Who packs them?)"),
    ),
}

# By the operation of a setup, those of questions that it leaves open, or answers with a number that it has. Sums and
# differences may ask about the setups of each other, and `How many is that in all?` about products, too.
CROSSED = {"+": "/", "-": "/", "*": "-/", "/": "*+-"}

TRICKS = (
    # The number asked for is in the text.
    "(Each|Every one) of (the |){a} (friends|children|neighbours|cousins) (has|keeps|feeds) {b} {thing}. How many "
    "(friends|children|neighbours|cousins) (have {thing}|are there|is that)?",
    "{name} has {a} (boxes|bags|jars) of {b} {thing}. How many (boxes|bags|jars) (does {name} have|are there)?",
    "{name} has {a} (boxes|bags|jars) of {b} {thing}. How many {thing} are in (one|each|a single) (box|bag|jar)?",
    "(The|A) (hotel|house|school|ship) has {a} (floors|halls|decks) with {b} rooms (each|on each). How many "
    "(floors|halls|decks) (does it have|are there)?",
    "(The|A) (hotel|house|school|ship) has {a} (floors|halls|decks) with {b} rooms (each|on each). How many rooms "
    "(are there |)on (each|one|every) (floor|deck)?",
    "{name} (buys|orders|sells) {a} {thing} (at|for) {b} dollars each. (How much is one|What does a single one "
    "cost|How many (does {name} (buy|order|sell)|are (bought|ordered|sold)))?",
    "{a} {thing} (are shared|are divided|are split) (among|between) {b} (friends|children|teams). How many {thing} "
    "are there (in all|altogether|in total|to begin with)?",
    "{a} {thing} (are shared|are divided|are split) (among|between) {b} (friends|children|teams). How many "
    "(friends|children|teams) (are there|share them|get {thing})?",
    "{name} had {a} {thing} and {other} gave {name} {b} more. How many did {other} give( away| to {name}|)?",
    "{name} had {a} {thing} and lost {b}. How many did {name} (lose|have at first|have before|start with)?",
    "There are {a} {thing} and {b} (boxes|bags|jars). How many (boxes|bags|jars|{thing}) are there?",
    "A (train|bus|boat) with {a} seats has {b} wheels. How many seats (does it have|are there)?",
    # All of them, or none.
    "{name} has {a} (boxes|bags|jars) of {b} {thing} and gives all of them (away|to {other}). How many {thing} does "
    "{name} (have|have now|still have|keep)?",
    "{name} has {a} {thing}, and {other} has {b}. {name} (loses|sells|gives away) all of (hers|his|them). How many "
    "does {name} have (now|left|then)?",
    "{name} had {a} {thing} and bought {b} more, but (lost|sold|gave away|broke) (everything|all of them|every one). "
    "How many (are left|does {name} have now|remain)?",
    "(A farmer|{name}|A shop|Our school) (has|had) {a} {thing}. All but {b} (are lost|are sold|break|are gone). How "
    "many (are left|remain|are still there)?",
    "All but {b} of (the|{name}'s) {a} {thing} (are|were) (sold|lost|eaten|broken). How many (are left|remain|were "
    "not)?",
    "{name} has {a} {thing} and keeps all but {b}. How many (are given away|does {name} give away|are not kept)?",
    # A number that is not written counts, too.
    "{b} (friends|sisters|brothers|colleagues) and (I|{name}|me) share {a} (euros|dollars|{thing}). How (much|many) "
    "(does each (of us |)get|each|for each)?",
    "{b} (friends|sisters|brothers|colleagues) and (I|{name}|me) share {a} (euros|dollars|{thing}), how (much|many) "
    "each(?|)",
    "{name} and {b} (friends|sisters|brothers) (split|share|divide) {a} {thing} (equally|evenly|fairly). How many "
    "does each (one |)get?",
    "{name}, {other} and {b} (others|more people|friends) share {a} {thing}. How many for each?",
    "{name} plants {a} trees in a (row|line), {b} feet apart. How long is the (row|line)?",
    "{name} cuts a (rope|log|board) of {a} feet every {b} feet. How many cuts (is that|are needed|does {name} make)?",
    "There is a post every {b} feet along a (road|fence|path) of {a} feet. How many posts (are there|are needed)?",
    "{name} reads from page {b} to page {a}. How many pages (is that|does {name} read)?",
    "(Tickets|Seats|Rooms|Pages|Houses) {b} to {a} are (sold|taken|free|read|old). How many (are that|is that|are "
    "these)?",
    # Something else is needed, or said.
    "{name} is {a} years old and {other} is {b}. (Who is older|How old will {name} be when {other} is grown up|When "
    "is their birthday)?",
    "{name} (walks|drives|rides) {a} miles to (school|work) and {a} miles back. How many (miles|hours) is that in "
    "{b} (days|weeks)?",
    "{name} has twice as many as {a} {thing} and gives {b} away. How many are left?",
    "Half of {a} {thing} are red, and {b} of those are (broken|lost). How many (red ones |)are (not|left)?",
    "{name} (pays|paid) with a {a} dollar (note|bill) for {b} (tickets|coffees|books). What (change|is the change)( "
    "does {name} get|)?",
    "In a (race|queue|line) {name} is number {b} of {a}. How many are in front of {name}?",
    "If {a} (machines|cats|workers) make {a} {thing} in {b} (minutes|hours|days), how long does one (need|take)?",
    "It takes {b} (workers|men|painters) {a} days. How long (does it take|do) (twice as many|half of them)?",
    "A (plane|bus|train) with {a} people (crashes|leaves) at {b}. (What time is it|How late is it|How many leave at "
    "{b})?",
)
# fmt: on
