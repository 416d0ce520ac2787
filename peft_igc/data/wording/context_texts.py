"""Texts around a request, and sentences for its answer, as pools that `grammar` splits.

Greetings, list numbers, sentences, closings and system prompts, as lines with alternatives. They are drawn
independently of the request, so each combines with every phrasing. Their numbers are not operands: they are in
sentences of their own, and many of these sentences use the words of arithmetic in another sense ("{name} called me
{k} times."). Fields: {n} a number of one to three digits, {m} of one to six, {k} {j} small numbers, {jj} {mm} {dd} two
digits, {date} {month} {year} {clock}, {name} {city} {thing}. In answers: {r} the result, {e} the calculation in
symbols, {a} {b} its operands, {thing} the counted things.
Only data, no logic. Try it: `pytest tests/data/test_wording.py -k around`.
"""

__all__ = [
    "ANSWERS",
    "CLOSINGS",
    "COUNTED",
    "CUES",
    "GREETINGS",
    "LISTS",
    "SENTENCES",
    "SYSTEMS",
]

# fmt: off

# Before a request, with the white space after them.
GREETINGS = (
    "(Hello|Hi|Hey|Hi there|Hello there)(!|,|, {name}.|, my friend.|, assistant.) ",
    "Good (morning|evening|day|afternoon). ",
    "Dear (assistant|helper|friend|{name}),\n", "Excuse me(.|, please.|, one moment.) ", "(Hello|Hi), I am {name}. ",
    "(Hello|Hi|Hey), my name is {name}. ", "(OK|All right|Well|Fine)(.|, next one.|, go on.) ",
    "(Now|Next)(:| this:| comes this:) ",
    "(And another|Another|One more|The last) (one|question|exercise): ",
    "Please help me( again| once more| quickly|). ",
    "I have (a|another|one more) (question|problem)(.|:) ", "(Thanks|Thank you)(!|, and now:|, next:) ",
    "I am (stuck|lost|in a hurry). ",
    "(For|This is for|It is for) (my homework|school|a friend|work|a quiz): ",
    "{name} (asks|wrote|wants to know|says): ",
    "Just a (moment|second|minute)(.|, please.) ", "(So|Now|Listen|Look|Right): ",
    "A (small|quick|short|new) (problem|question|task): ",
    "(My|Our|The) (teacher|boss|sister|brother) (asks|wants to know|wrote): ",
    "(Here is|This is) (my|the|a) (question|problem|task): ",
)
LISTS = (
    "{k}. ", "{k}) ", "({k}) ", "{k}: ", "[{k}] ",
    "(Question|Exercise|Task|Problem|Number|Part|Item|Puzzle|Test) {k}(:|.) ",
    "(Homework|Assignment|Query|Prompt|Case|Example|Row|Job|Request|Line|Entry) {k}(:|.) ",
    "(Question|Exercise|Task|Problem|Section|Entry|Part) {k}\n",
    "(Step|Round|Level|Turn|Day|Card|Slide|Chapter|Stage) {k}(:|.) ",
    "(Page|Lesson|Test|Chapter|Sheet) {k}, (question|task|part|exercise) {j}(:|.) ", "Q{k}: ", "No. {k}: ",
    "#{k}: ", "<{k}> ", "* {k}. ", "- {k}: ",
    "(Question|Message|Task|Exercise|Item) {k} of {j}(:|.) ", "(Section|Unit|Part|Week) {k}\n\n",
    "(Homework|Exercises), page {k}(:|.) ",
    "(Question|Task|Item|Exercise) (no.|number) {k}: ",
    "(Old|New|Next) (question|task|problem) ({k}): ",
)

# Before or after a request.
SENTENCES = (
    "There (are|were) {n} (chairs|people|desks|lamps) in (the|this|our) (room|house|hall).",
    "I was born in {year}.", "(It|This) (is|was) from {year}.",
    "My (phone|computer|tablet) has {n} (apps|files|photos).", "It is {k} o'clock( now| already|).",
    "It is {clock}( now|).", "(Today|It) is {date}.",
    "(The date|Today's date) is {date}.", "(We are|I am) on page {n}( now| of the book|).",
    "(I|We|They) live at {n} (Main|Park|Hill|Church) Street.",
    "(My|Her|Our) (house|flat|room|locker) has (the |)number {n}.",
    "(My|His|Our) (dog|cat|son|horse) is {k} years old.", "I am {k} years (old|young).",
    "I have {k} (brothers|cousins|uncles) and {j} (sisters|aunts|nieces).",
    "(The|My) (bus|tram|train) {n} is (late|full|slow).", "We (met|married|moved) in {year}.",
    "My (room|house|ticket|seat) number is {n}.", "It is {k} degrees (outside|here|in {city}).",
    "It is {k}.{j} degrees (outside|here|in {city}).",
    "It is (minus |-){k} degrees( outside| here| in {city}|).", "The temperature (is|was) (minus |-){k} degrees.",
    "The battery is at {k}%.",
    "(The|My) (battery|tank) is {k} percent (full|empty).",
    "I (bought|got|sold) (this|my) (phone|bike|car) in {month} {year}.",
    "I have asked {n} people( already| before you|).",
    "This is (my|the) question number {n}.", "(My|The|Our) (train|bus|plane) leaves at {clock}.",
    "{name} is {k} years old( today| now|).", "{name} was born on {date}.",
    "The (shop|office|bank) (opens|closes) at {k}( o'clock|).", "I (woke|got) up at {clock}( today|).",
    "The (room|boat|table) is {k}m long.",
    "(My|Her|The) score was {n} to {j}.", "(I|You|We) have {k} minutes( left|).",
    "(This|It|That) costs {k}.{jj} dollars.", "Flight {n} to {city} is (on time|late|full).",
    "It rained for {k} days( in {city}| last month|).", "We (won|lost) {k}:{j}( yesterday| at home|).",
    "The (exam|test|form) has {n} (questions|pages|parts).",
    "My class has {n} (students|pupils|boys).", "I weigh {n}kg.",
    "I (slept|worked|waited) {k} hours( last night| today|).", "The (code|number|key) of my (bike|door|bag) is {m}.",
    "(I am|She is|{name} is) in room {n} on floor {k}.", "On {date}(,|) (I|we|{name}) moved to {city}.",
    "(My|Our|The) (car|house|bike) is from {year}.",
    "I (read|wrote) {n} pages (of a novel|last week|yesterday).", "The (film|song|match) lasts {n} minutes.",
    "I am writing this on {month} {k}, {year}.",
    "The weather is (fine|bad|cold)( today|).", "I (like|hate|love) (numbers|math|sums).", "My name is {name}.",
    "{name} (likes|loves|left) {city}.", "I am from {city}.",
    "It is (raining|snowing|warm) in {city}.",
    # words of arithmetic in another sense
    "(He|She|{name}) called( me| us|) {k} times( today| last week|).",
    "I (tried|failed|asked) {k} times( already|).", "(I|We) (divided|split) the class into {k} groups.",
    "The (sum|total|bill|product) is due in {k} days.", "(He|She|{name}) (won|lost) {n} to {j}.",
    "It costs {k} dollars (more|less) than (last year|before|yours).",
    "A total of {n} (people|guests) (came|left).", "A sum of {n} dollars is (missing|lost).",
    "I (left|arrived) {k} minutes ago.", "Each of us (has|got|brought) {k} {thing}.",
    "The product number is {m}.", "(I|We|They) (work|train|meet) {k} (hours|days|times) per (week|month|year).",
    "(I|She|We) took {k} {thing} (away|home|from the table).",
    "Add {k} {thing} to my list.", "{name} (and|plus) {k} (friends|others) are coming.",
    "(That|It) makes {k} of us.", "{name} has {k} more {thing} than I( have| do|).",
    "The difference is only {k} (points|dollars|days).", "There are {k} {thing} left.",
    "Only {k} (minutes|days|pages) remain.", "(I|We) need {k} more {thing}.",
    "My (dog|cat) is twice as old, {k} years.", "{k} times a (day|week|year) I go (home|there|to {city}).",
    "The (price|rent) (rose|fell) by {k} dollars.",
    "(He|She|{name}) gave me {k} {thing}.", "The (quotient|ratio|average) was {k} (last|in {year}).",
    "I got {n} points( altogether| in all|).", "We were {k} in all.",
    "All (of |)my {k} (answers|results|sums) were wrong.", "I (added|removed|counted) {k} (names|words|files).",
    "How {k} people (fit|got) in there I do not know.",
    "My (brother|sister) sold {k} {thing} (yesterday|on Sunday|for me).", "{k} plus points for you!",
    "Half of the {n} (guests|people) (left|stayed).", "(Minus |-){k} is (too |)cold.",
    "(Why|When) did {k} of them leave?", "Did you know that {city} has {n} bridges?", "Who has {k} {thing}?",
    "Is it {clock} already?", "Can {k} people be wrong?",
    "Do you have {k} minutes?", "{name} bought {k} {thing} in {city}.",
    "(From|Since) {year} (to|until) today nothing changed.", "(Around|In|After) {year} it was (built|sold|lost).",
    "(He|She|{name}) multiplied my problems by {k}.", "(We|They) shared a room for {k} (days|weeks).",
    "The {k}th (day|floor|page) is the best.",
    "(I|We|You) (owe|paid) {name} {n} dollars.", "My (savings|debts) (are|were) {m} dollars.",
    "The (town|city|village) has {m} (people|inhabitants).",
    "Order (number |){m} (arrived|is lost|was sent).", "My (number|code|pin) is {m}.",
    "The (sum|total) (on the bill|last month|in {year}) was {m}.",
    "In {year} it was {m}.", "(I|We) (counted|saw) {m} (stars|cars|birds).",
    "(Distance|Total|Sum|Price|Count): {m}.", "(Result|Answer) of the last one: {m}.",
    "The (last|first|old) answer was {m}.", "(So far|Up to now) I have {m} points.", "{m} is a large number.",
    "(I|We) do not like {m}.",
    "(Version|Chapter|Act|Level) {k} is (out|done|hard).", "Take {k} minutes to (think|rest|read).",
    "We multiply like rabbits.", "They divided the land.",
    "What a difference a day makes!", "The sum of it all is (love|peace|nothing).", "(Add|Count) me in!",
    "I am on the plus side.", "(More|Less) is (more|less).",
    "(He|She|{name}) took {k} (steps|days) and {j} (breaks|rests).",
    "{k} or {j} (people|of us) (will come|are late).", "We have {k} (dogs|cars) and {j} (cats|bikes).",
    "My (shoes|gloves) are size {k}.", "(Room|Gate|Seat|Platform) {k}!",
    "(Page|Line|Part) {k} is (missing|torn|wrong).", "See (page|chapter|figure) {k}.",
)

# After a request.
CLOSINGS = (
    "(Thanks|Thank you|Many thanks)(.|!|, {name}.| in advance.| very much!)",
    "Please be (quick|brief|exact|careful).", "Answer with (the|a|one) number only.",
    "I need (it|this|the answer) (at|by) {k} o'clock.", "I need (it|this|the answer) before {clock}.",
    "Please (answer|reply) within {n} (seconds|minutes).",
    "(This|It) is for my class of {n} (students|pupils).", "I (asked|told) {name} (already|before).",
    "(My|Our|The) deadline is {date}.", "You have {k} (minutes|seconds|tries).",
    "This (is|was) question {k} of {j}.", "I will ask {n} more (questions|times)( after this| today|).",
    "No (explanation|words|story), please.", "(Send|Bring|Take) it to room {n}.",
    "(Reply|Answer) by {month} {k}.", "I have to (leave|go) at {clock}.", "It is (urgent|for today|important).",
    "(Question {k} of {j})", "(page {n})", "({year})",
    "(Give|Show|Tell) me only the (result|number|answer).", "It is for a (test|quiz|talk) on {date}.",
    "My teacher is {k} minutes late.", "{name} got it wrong {k} times.",
    "I got it wrong in {year}.", "Do not (round|guess|explain).", "(I|We) (have|get) {k} points for it.",
    "(It|This) is worth {k} (points|dollars).", "{name} said {m}.", "(I|We) (thought|think) it is {m}.",
    "(The|My) first guess was {m}.", "(I|We) have {k} more (of them|questions|tasks).",
    "(You|I) may try {k} times.", "Take your time.", "Nobody (knows|helped me).",
)

# System prompts.
SYSTEMS = (
    "You are a (helpful|careful|friendly|polite|good) (assistant|model|helper|tutor)(.|. Be brief.|. Keep answers "
    "short.|. Answer in English.)", "Answer with the number only.",
    "(Be|Please be) (brief|short|precise|polite|short and precise).",
    "You answer questions about (numbers|text|numbers and text).",
    "You are a (calculator|small model|math teacher|chat bot).",
    "Answer (briefly|with a number|shortly|in one line).",
    "Today is {date}. You are a (helpful|careful|friendly) (assistant|model).",
    "Cutting Knowledge Date: {month} {year}\nToday Date: {date}\n\n(You are a helpful assistant.|You are a careful "
    "assistant.|Be brief.|Be kind.|)",
    "(Knowledge cutoff|Cutoff): {year}-{mm}\n(Current date|Today): {year}-{mm}-{dd}",
    "(Current date|Date|Today): {year}-{mm}-{dd}", "Today Date: {date}",
    "The (current time|time|time now) is {clock}.", "The user {name} is {n} years old.",
    "You are (assistant|helper|agent|clerk) number {n}.", "You may use (up to|at most) {n} words.",
    "Answer in at most {k} (words|lines|sentences).", "You are version {k}.{j} of (an assistant|a model|a tutor).",
    "Session {n} (started|began) on {date} at {clock}.",
    "The user's name is {name}. The user (lives in|is from|works in) {city}.",
    "You (help|serve|answer) {n} (customers|users|people) (a day|per day).",
    "Rules:\n1. Be (polite|kind|brief).\n2. Be (brief|exact|clear).\n3. Do not (guess|lie|joke).",
    "Date: {dd}.{mm}.{year}", "Date: {mm}/{dd}/{year}\nTime: {clock}",
    "You are a teacher of a class with {n} (children|students|pupils).",
    "Your (shop|office|bank) (closes|opens) at {k} o'clock and has {n} (customers|workers|clerks).",
    "It is {month} {k}, {year}. You talk to {name}.", "(Ticket|Case|Order) {m}. Priority {k}.",
    "(User|Client|Account) {m}. (Language|Area|Group) {k}.",
    "You are {name}, {k} years old.", "You (have|know) {n} tools. Use {k} of them.",
    "{name} (calls|asks) you {k} times per (day|week).", "The (limit|budget) is {m} tokens.",
)

# Answers other than the bare number. None begins with the result, because the bare number teaches the model to end an
# answer after a result at its beginning.
ANSWERS = (
    "The answer is {r}.", "The result is {r}.", "It is {r}.", "That is {r}.", "That makes {r}.", "It comes to {r}.",
    "That gives {r}.",
    "I would say {r}.", "The number is {r}.", "So the answer is {r}.", "You get {r}.", "I get {r}.",
    "The correct answer is {r}.",
    "One gets {r} for {e}.", "{e} = {r}.", "We calculate {e} = {r}.", "{e} = {r}. So the answer is {r}.",
    "The answer is {r}. Indeed, {e} = {r}.", "The answer is {r}, because {e} = {r}.",
    "The result is {r}. Is there anything else?", "Sure. {e} = {r}.", "Of course it is {r}.",
    "Let me see. {e} is {r}.", "The numbers are {a} and {b}. The answer is {r}.",
)
COUNTED = (
    "That makes {r} {thing}.", "There are {r} {thing}.", "It is {r} {thing}.", "The answer is {r} {thing}.",
    "There are {r} {thing} in all, so the answer is {r}.",
)

# After a request, asking for such an answer.
CUES = (
    "Answer in a sentence.", "Reply with a full sentence.", "Answer in a full sentence, please.",
    "Write a short sentence.", "Explain your answer briefly.", "Say it in a sentence.",
)
# fmt: on
